"""What each technique can do at best with so many rules: its number of bits, dimensions and members, by set-asides.

All of them are considered and few are tried. A limit on members only adds deliveries to what the bits alone make, which
is cheap to know: where that is no better than what the technique has at a budget already, no limit can be. And what has
too many rules for every budget where it could be better is left as soon as a part of its rules is too many. So what is
found is the same as if all had been tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pleroma.evaluation.outcome import Outcome
from pleroma.experiments.frontier.frontier_stage import Stage
from pleroma.index import GridIndex, Index, SelectiveIndex, Waste
from pleroma.selection.dimension_selection import EVALUATING, Evidence, select
from pleroma.selection.splits import SPLITS
from pleroma.selection.traffic_statistics import TrafficStatistics

LENGTHS = (4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 23, 32, 64, 112)
USUAL = 14
"""Lengths about this are tried first: what they reach spares most of the others."""
MEMBERS = (None, 256, 64, 16, 4, 1)
EXHAUSTIVE = 16
"""Up to so many bits, covers without any limit on their members are tried as well."""
SETS = 2
"""Of the dimensions that a selection proposes, so many sets are tried in full at each length."""
NO_BITS = "no bits"
"""One rule, whatever the budget."""


class Place(NamedTuple):
    """Where a technique may be best."""

    network: str
    bits: int
    rules: int


class Found(NamedTuple):
    aside: int
    """The deliveries of events set aside, which have decided."""
    unseen: Outcome
    drifted: Waste


Rank = tuple[int, int, int, int]
"""Deliveries; and of those that make the same, the longest, with the set proposed last and the fewest members."""


@dataclass(frozen=True, slots=True, eq=False)
class _Proposal:
    """An index, and which techniques propose it, as their how-manieth set of dimensions."""

    length: int
    index: GridIndex | SelectiveIndex
    techniques: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class _Best:
    rank: Rank
    index: GridIndex | SelectiveIndex
    members: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    stage: Stage
    networks: tuple[str, ...]
    bits: tuple[int, ...]
    budgets: tuple[int, ...]
    selections: tuple[str, ...]
    lengths: tuple[int, ...] = LENGTHS
    _best: dict[tuple[str, Place], _Best] = field(default_factory=dict)
    _known: dict[object, dict[int | None, tuple[dict[str, int], dict[str, Outcome], bool]]] = field(
        default_factory=dict
    )

    def found(self, split: str) -> dict[Place, dict[str, Found]]:
        """By place, what each technique with this way to cut does with its best. Without any bits comes first."""
        bare = GridIndex(self.stage.workload.schema, ())
        outcomes = self.stage.outcomes(bare, None, self.stage.aside)
        for network in self.networks:
            for place in self._places(network, 0):
                self._best[NO_BITS, place] = _Best((outcomes[network].waste.deliveries, 0, 0, 0), bare, None)
        for proposal in self._proposals(split):
            self._try(proposal)
        done: dict[object, list[dict[str, Outcome]]] = {}
        made: dict[Place, dict[str, Found]] = {}
        for technique in (NO_BITS, *(f"{selection} + {split}" for selection in self.selections)):
            for place in [place for network in self.networks for place in self._places(network, 0)]:
                if (best := self._best.get((technique, place))) is not None:
                    key = _content(best.index), best.members
                    if key not in done:
                        trials = (self.stage.unseen, self.stage.drifted)
                        done[key] = self.stage.outcomes_of(best.index, best.members, trials)
                    unseen, drifted = done[key]
                    one = Found(best.rank[0], unseen[place.network], drifted[place.network].waste)
                    made.setdefault(place, {})[technique] = one
        return made

    def _places(self, network: str, bits: int) -> Iterator[Place]:
        """Those that allow so many bits, the most rules first."""
        for rules in sorted(self.budgets, reverse=True):
            yield from (Place(network, most, rules) for most in self.bits if bits <= most)

    def _proposals(self, name: str) -> Iterator[_Proposal]:
        """Of every length, each set of dimensions that some technique proposes."""
        stage, statistics = self.stage, TrafficStatistics.of(self.stage.sample)
        counts = range(1, len(stage.workload.schema) + 1)
        for bits in sorted((n for n in self.lengths if n <= max(self.bits)), key=lambda n: abs(n - USUAL)):
            split = SPLITS[name](stage.sample, bits)
            regular = SPLITS["regular"](stage.sample, bits)
            proposed: dict[tuple[int, ...], dict[str, int]] = {}
            for selection in self.selections:
                evidence = Evidence(statistics, split if selection in EVALUATING else regular, 0)
                sets = {select(selection, evidence, n) for n in counts}
                for at, dims in enumerate(sorted(sets, key=lambda dims: split.waste(dims).deliveries)[:SETS]):
                    proposed.setdefault(dims, {})[f"{selection} + {name}"] = at
            for dims, techniques in proposed.items():
                index = split.index(dims)
                if isinstance(index, GridIndex | SelectiveIndex):
                    yield _Proposal(bits, index, techniques)

    def _try(self, proposal: _Proposal) -> None:
        """With ever fewer members, until there are fewer rules than anybody asks for: fewer only waste more."""
        fewest = self.stage.fewest(proposal.index)
        for at, members in enumerate(MEMBERS):
            if members is None and proposal.length > EXHAUSTIVE:
                continue
            room = {network: self._room(proposal, at, network, fewest[network]) for network in self.networks}
            wanted = {network: most for network, most in room.items() if most}
            if not wanted:
                continue
            outcomes, few = self._outcomes(proposal.index, members, wanted)
            for network, outcome in outcomes.items():
                for technique, place, rank in self._ranked(proposal, at, network, outcome.waste.deliveries):
                    best = self._best.get((technique, place))
                    if outcome.rules <= place.rules and (best is None or rank < best.rank):
                        self._best[technique, place] = _Best(rank, proposal.index, members)
            if few:
                return

    def _ranked(self, proposal: _Proposal, at: int, network: str, deliveries: int) -> Iterator[tuple[str, Place, Rank]]:
        for technique, number in proposal.techniques.items():
            rank = (deliveries, -proposal.length, -number, -at)
            for place in self._places(network, proposal.index.bits):
                yield technique, place, rank

    def _room(self, proposal: _Proposal, at: int, network: str, fewest: int) -> int:
        """The most rules with which it could be the best of some technique, if no more than this were delivered."""
        ranked = self._ranked(proposal, at, network, fewest)
        better = (
            place.rules
            for technique, place, rank in ranked
            if (best := self._best.get((technique, place))) is None or rank < best.rank
        )
        return max(better, default=0)

    def _outcomes(
        self, index: GridIndex | SelectiveIndex, members: int | None, room: dict[str, int]
    ) -> tuple[dict[str, Outcome], bool]:
        """As `Stage.within`. Beyond the bits that dimensions can use, greater lengths are the same index again."""
        known = self._known.setdefault(_content(index), {})
        if members in known:
            before, outcomes, few = known[members]
            if all(most <= before.get(network, 0) for network, most in room.items()):
                return {n: outcomes[n] for n, most in room.items() if n in outcomes and outcomes[n].rules <= most}, few
        known[members] = room, *self.stage.within(index, members, room, min(self.budgets))
        return known[members][1:]


def _content(index: GridIndex | SelectiveIndex) -> object:
    """What tells the indexes of one way to cut the same sample apart."""
    if isinstance(index, GridIndex):
        return index.order
    return tuple((region.number, region.rectangle, region.grid.order) for region in index.regions)


def judged(stage: Stage, network: str, index: Index, members: int | None) -> Found:
    """What an index does that has been made for a network."""
    aside, unseen, drifted = (
        stage.outcomes(index, members, trial)[network] for trial in (stage.aside, stage.unseen, stage.drifted)
    )
    return Found(aside.waste.deliveries, unseen, drifted.waste)
