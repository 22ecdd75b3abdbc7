"""Trying indexes with a workload on several networks: events to learn from, and events to judge by.

Covers are made once for all networks, and what is wanted is counted once for all indexes: a frontier tries thousands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pleroma.arrays.types import Ints
from pleroma.content.batch import EventBatch
from pleroma.evaluation.batch_covers import covered
from pleroma.evaluation.grid_evaluator import GridEvaluator, deliveries
from pleroma.evaluation.index_covers import covers_of
from pleroma.evaluation.judge import Outcome, checked
from pleroma.evaluation.placement import Placement, spread_of
from pleroma.evaluation.sample import Sample
from pleroma.evaluation.shared_dz import SharedDz
from pleroma.evaluation.tree_counts import deliveries_of, rules_of
from pleroma.experiments.workload_source import Source, generated
from pleroma.index import GridIndex, Index, SelectiveIndex, TreeIndex, Waste
from pleroma.index.codes import Codes
from pleroma.index.dz_rows import DzRows, events_in, ordered, unfilled
from pleroma.learning.fitting import Budget
from pleroma.learning.learner import learn
from pleroma.learning.rule_counts import fullest_switch_rules
from pleroma.routing import build
from pleroma.selection.advice import random_halves
from pleroma.workloads import StockModel, Workload

STAR = "star"
"""Every subscription on a port of its own."""
MAX_ASIDE_EVENTS = 4_000
"""How many events are set aside to choose by, at most."""
DRIFT_SUBSCRIPTIONS = 10
"""After the drift, only events that about so many of the subscriptions want are still published."""


COUNTING_SHARES = (8, 2)
"""Rules are counted with an eighth of the hosts' subscriptions, with half of them, and with all."""
MIN_SUBSCRIPTIONS_IN_SHARES = 2_000
"""With fewer subscriptions, rules are counted with all of them at once, which is as quick."""


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """Events to judge by, and by network the deliveries that are wanted of them."""

    events: EventBatch
    samples: Mapping[str, Sample]
    wanted: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class _Demands:
    """What subscriptions ask for, each with a port of its own or at the hosts of a placement."""

    place: Placement | None
    rows: DzRows
    shared: SharedDz

    @classmethod
    def of(cls, place: Placement | None, rows: DzRows, owner: Ints, done: NDArray[np.bool_] | None = None) -> _Demands:
        """Of those that are done: rules are then at least so many."""
        if place is None:
            return cls(None, rows, SharedDz(()))
        missing = np.zeros(0, np.int64) if done is None else place.homes[~done]
        known = np.bincount(missing, minlength=int(place.homes.max()) + 1) == 0
        return cls(place, rows, SharedDz.of(rows, place.homes[owner], known))

    def rules(self) -> int:
        if self.place is None:
            return unfilled(ordered(self.rows))
        return max(self.shared.rules(ports) for ports in self.place.spread)

    def deliveries(self, codes: Codes) -> int:
        return self.shared.deliveries(codes) if self.place else int(events_in(codes, self.rows).sum())


@dataclass(frozen=True, slots=True, eq=False)
class FrontierTrials:
    """A workload on several networks, with three sets of events to judge indexes by."""

    workload: Workload
    sample: Sample
    placements: Mapping[str, Placement | None]
    shares: tuple[NDArray[np.bool_], ...]
    """Subscriptions in parts, those of the same hosts together: a few tell whether tables will be far too large."""
    aside: Trial
    unseen: Trial
    drifted: Trial

    @classmethod
    def of(
        cls, given: Source, subscriptions: int, networks: tuple[str, ...], events: int | None = None
    ) -> FrontierTrials:
        source = replace(given, subscriptions=subscriptions)
        if events is not None and not isinstance(source, StockModel):
            source = replace(source, events=events)
        workload = generated(source)
        every = workload.events
        if events is not None and len(every) > events:
            every = every[np.sort(np.random.default_rng(2).permutation(len(every))[:events])]
        seen, unseen = random_halves(every, source.seed)
        order = np.random.default_rng(source.seed).permutation(len(seen))
        aside = min(len(seen) // 4, MAX_ASIDE_EVENTS)
        few = workload.subscriptions[:: len(workload.subscriptions) // DRIFT_SUBSCRIPTIONS or 1]
        still = np.any([unseen.matches(each) for each in few], axis=0)
        sample = Sample.of(seen[np.sort(order[aside:])], workload.subscriptions)
        placements = {name: _placement(name, subscriptions, source.seed) for name in networks}

        def trial(events: EventBatch) -> Trial:
            star = replace(sample, points=events.points(), keys=events.ordinals())
            samples = {n: star if place is None else star.grouped(place.homes) for n, place in placements.items()}
            return Trial(events, samples, {n: GridEvaluator(each, 1).wanted for n, each in samples.items()})

        return cls(
            workload,
            sample,
            placements,
            _shares(subscriptions, list(placements.values())),
            trial(seen[np.sort(order[:aside])]),
            trial(unseen),
            trial(unseen[still] if still.any() else unseen),
        )

    def outcomes(self, index: Index, members: int | None, trial: Trial) -> dict[str, Outcome]:
        """By network."""
        return self.outcomes_of(index, members, (trial,))[0]

    def outcomes_of(self, index: Index, members: int | None, trials: Sequence[Trial]) -> list[dict[str, Outcome]]:
        """By trial and network."""
        if isinstance(index, TreeIndex) and members is None:
            return self._of_tree(index, trials)
        covers = covers_of(index, self.workload.subscriptions, self.sample, members)
        demands = {name: _Demands.of(place, covers.rows, covers.owner) for name, place in self.placements.items()}
        rules = {name: each.rules() for name, each in demands.items()}
        found = []
        for trial in trials:
            codes = index.encode(trial.events.points())
            made = {name: checked(each.deliveries(codes), trial.wanted[name]) for name, each in demands.items()}
            found.append({name: Outcome(waste, rules[name]) for name, waste in made.items()})
        return found

    def within(
        self, index: GridIndex | SelectiveIndex, members: int | None, room: Mapping[str, int], least: int
    ) -> tuple[dict[str, Outcome], bool]:
        """By events set aside, on those networks where no switch has more rules than the network has `room` for.

        Also whether no switch of any network has more than the `least`. Subscriptions are covered a share at a time: a
        table never has fewer rules for having more dz (see `cells.unfilled`), so that where a part of a switch's table
        is too large, the whole is.
        """
        left = dict(room)
        rows, owner = np.zeros((0, 2), np.uint64), np.zeros(0, np.int64)
        done = np.zeros(self.sample.owners, np.bool_)
        for share in self.shares:
            found = covered(index, self.sample.boxes_alone(share[self.sample.owner]), members)
            rows, owner = np.concatenate([rows, found.rows]), np.concatenate([owner, found.owner])
            done = done | share
            demands = {name: _Demands.of(self.placements[name], rows, owner, done) for name in left}
            left = {name: most for name, most in left.items() if demands[name].rules() <= most}
            if not left:
                return {}, False
        codes, wanted = index.encode(self.aside.events.points()), self.aside.wanted
        outcomes = {n: Outcome(checked(demands[n].deliveries(codes), wanted[n]), demands[n].rules()) for n in left}
        few = all(each.rules <= least for each in outcomes.values())
        others = [place for name, place in self.placements.items() if name not in outcomes]
        return outcomes, few and all(_Demands.of(place, rows, owner).rules() <= least for place in others)

    def fewest(self, index: Index) -> dict[str, int]:
        """By network, the deliveries of events set aside without any limit on members, which can only add some."""
        return {name: deliveries(sample, index) for name, sample in self.aside.samples.items()}

    def _of_tree(self, index: TreeIndex, trials: Sequence[Trial]) -> list[dict[str, Outcome]]:
        def rules(place: Placement | None) -> int:
            if place is None:
                return rules_of(index, self.sample)
            return fullest_switch_rules(index, self.sample.grouped(place.homes), place.spread)

        def waste(trial: Trial, name: str) -> Waste:
            return Waste(deliveries_of(index, trial.samples[name]), trial.wanted[name])

        needed = {name: rules(place) for name, place in self.placements.items()}
        return [{name: Outcome(waste(each, name), count) for name, count in needed.items()} for each in trials]

    def learn(self, network: str, bits: int, rules: int) -> TreeIndex:
        place = self.placements[network]
        if place is None:
            return learn(self.sample, bits, Budget(rules=rules)).index
        return learn(self.sample.grouped(place.homes), bits, Budget(rules=rules), spread=place.spread).index


def _shares(subscriptions: int, placements: Sequence[Placement | None]) -> tuple[NDArray[np.bool_], ...]:
    """Subscriptions in shares, those of the same hosts together, by the first network that has hosts."""
    homes = next((place.homes for place in placements if place is not None), np.arange(subscriptions))
    hosts = int(homes.max()) + 1
    bounds = [
        0,
        *(-(-hosts // part) for part in COUNTING_SHARES if subscriptions >= MIN_SUBSCRIPTIONS_IN_SHARES),
        hosts,
    ]
    return tuple((first <= homes) & (homes < last) for first, last in pairwise(bounds) if first < last)


def _placement(name: str, subscriptions: int, seed: int) -> Placement | None:
    if name == STAR:
        return None
    network = build(name)
    homes = np.random.default_rng(seed).integers(0, len(network.hosts), subscriptions)
    return Placement(homes, spread_of(network))


@lru_cache(maxsize=1)
def trials_of(given: Source, subscriptions: int, networks: tuple[str, ...], events: int | None) -> FrontierTrials:
    """`FrontierTrials.of`, which is kept for the tasks of the same workload that follow."""
    return FrontierTrials.of(given, subscriptions, networks, events)
