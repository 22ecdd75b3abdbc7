"""A workload on several networks, its events parted by what they are for, and what an index does there.

Covers are made once for all networks, and what is wanted is counted once for all indexes: a frontier tries thousands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from pleroma.content.batch import EventBatch
from pleroma.experiments.placement import spread_of
from pleroma.experiments.source import Source, generated
from pleroma.index import Index, TreeIndex, Waste
from pleroma.routing import build
from pleroma.tuning import Sample
from pleroma.tuning.advice import halves
from pleroma.tuning.evaluation import GridEvaluator
from pleroma.tuning.network_outcome import Placement, outcome_on
from pleroma.tuning.outcome import Outcome, held
from pleroma.tuning.tree_counts import deliveries_of, rules_of
from pleroma.tuning.tree_learner import Budget, learn
from pleroma.workloads import StockModel, Workload

STAR = "star"
"""Every subscription on a port of its own."""
SET_ASIDE = 4_000
DRIFTED = 10
"""After the drift, only what so many of the subscriptions want is still published."""


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """Events to judge by, and by network the deliveries that are wanted of them."""

    events: EventBatch
    samples: Mapping[str, Sample]
    wanted: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    workload: Workload
    sample: Sample
    placements: Mapping[str, Placement | None]
    aside: Trial
    unseen: Trial
    drifted: Trial

    @classmethod
    def of(cls, given: Source, subscriptions: int, networks: tuple[str, ...], events: int | None = None) -> Stage:
        source = replace(given, subscriptions=subscriptions)
        if events is not None and not isinstance(source, StockModel):
            source = replace(source, events=events)
        workload = generated(source)
        every = workload.events
        if events is not None and len(every) > events:
            every = every[np.sort(np.random.default_rng(2).permutation(len(every))[:events])]
        seen, unseen = halves(every, source.seed)
        order = np.random.default_rng(source.seed).permutation(len(seen))
        aside = min(len(seen) // 4, SET_ASIDE)
        few = workload.subscriptions[:: len(workload.subscriptions) // DRIFTED or 1]
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
            trial(seen[np.sort(order[:aside])]),
            trial(unseen),
            trial(unseen[still] if still.any() else unseen),
        )

    def outcomes(self, index: Index, members: int | None, trial: Trial) -> dict[str, Outcome]:
        """By network."""
        if isinstance(index, TreeIndex) and members is None:
            return {name: self._of_tree(index, name, trial) for name in self.placements}
        covers = [index.cover(each, max_members=members) for each in self.workload.subscriptions]
        codes = index.encode(trial.events.points())
        found = {}
        for name, place in self.placements.items():
            wanted = trial.wanted[name]
            if place is None:
                waste = Waste(held(codes, covers), wanted)
                found[name] = Outcome(waste, len({dz for cover in covers for dz in cover}))
            else:
                found[name] = outcome_on(covers, codes, wanted, place.homes, place.spread)
        return found

    def _of_tree(self, index: TreeIndex, network: str, trial: Trial) -> Outcome:
        sample, place = trial.samples[network], self.placements[network]
        views = [sample] if place is None else [sample.grouped(ports) for ports in place.spread]
        waste = Waste(deliveries_of(index, sample), trial.wanted[network])
        return Outcome(waste, max(rules_of(index, view) for view in views))

    def learn(self, network: str, bits: int, rules: int) -> TreeIndex:
        place = self.placements[network]
        if place is None:
            return learn(self.sample, bits, Budget(rules=rules)).index
        return learn(self.sample.grouped(place.homes), bits, Budget(rules=rules), spread=place.spread).index


def _placement(name: str, subscriptions: int, seed: int) -> Placement | None:
    if name == STAR:
        return None
    network = build(name)
    homes = np.random.default_rng(seed).integers(0, len(network.hosts), subscriptions)
    return Placement(homes, spread_of(network))
