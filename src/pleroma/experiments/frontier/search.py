"""The best that each technique can do with so many rules: its number of bits, dimensions and members.

All of them are considered and few are tried. A limit on members only adds deliveries to what the bits alone make, which
is cheap to know: where that is no better than what the technique has at a budget already, no limit can be. And what has
too many rules for every budget where it could be better is left as soon as a part of its rules is too many. So what is
found is the same as if all had been tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pleroma.evaluation.judge import Outcome
from pleroma.experiments.frontier.trials import FrontierTrials
from pleroma.index import GridIndex, Index, SelectiveIndex, Waste
from pleroma.selection.dimension_selection import EVALUATING, select
from pleroma.selection.evidence import Evidence
from pleroma.selection.splits import SPLITS
from pleroma.selection.traffic_statistics import TrafficStatistics

TRIED_LENGTHS = (4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 23, 32, 64, 112)
USUAL_LENGTH = 14
"""Lengths about this are tried first: what they reach spares most of the others."""
TRIED_MEMBERS = (None, 256, 64, 16, 4, 1)
MAX_UNLIMITED_LENGTH = 16
"""Up to so many bits, covers without any limit on their members are tried as well."""
SETS_PER_SELECTION = 2
"""Of the dimensions that a selection proposes, so many sets are tried in full at each length."""
NO_BITS = "no bits"
"""The technique of an index without bits: one rule, whatever the budget."""


class BudgetSetting(NamedTuple):
    """A network, the bits of an index, and the rules that a switch has room for."""

    network: str
    bits: int
    rules: int


class JudgedIndex(NamedTuple):
    """What an index delivers and wastes."""

    aside: int
    """The deliveries of events set aside, by which the index was chosen."""
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
class FrontierSearch:
    trials: FrontierTrials
    networks: tuple[str, ...]
    bits: tuple[int, ...]
    budgets: tuple[int, ...]
    selections: tuple[str, ...]
    lengths: tuple[int, ...] = TRIED_LENGTHS
    _best: dict[tuple[str, BudgetSetting], _Best] = field(default_factory=dict)
    _known: dict[object, dict[int | None, tuple[dict[str, int], dict[str, Outcome], bool]]] = field(
        default_factory=dict
    )

    def found(self, split: str) -> dict[BudgetSetting, dict[str, JudgedIndex]]:
        """By setting, what each technique with this way to cut does with its best. Without any bits comes first."""
        bare = GridIndex(self.trials.workload.schema, ())
        outcomes = self.trials.outcomes(bare, None, self.trials.aside)
        for network in self.networks:
            for setting in self._settings(network, 0):
                self._best[NO_BITS, setting] = _Best((outcomes[network].waste.deliveries, 0, 0, 0), bare, None)
        for proposal in self._proposals(split):
            self._try(proposal)
        done: dict[object, list[dict[str, Outcome]]] = {}
        made: dict[BudgetSetting, dict[str, JudgedIndex]] = {}
        for technique in (NO_BITS, *(f"{selection} + {split}" for selection in self.selections)):
            for setting in [setting for network in self.networks for setting in self._settings(network, 0)]:
                if (best := self._best.get((technique, setting))) is not None:
                    key = _content(best.index), best.members
                    if key not in done:
                        trials = (self.trials.unseen, self.trials.drifted)
                        done[key] = self.trials.outcomes_of(best.index, best.members, trials)
                    unseen, drifted = done[key]
                    one = JudgedIndex(best.rank[0], unseen[setting.network], drifted[setting.network].waste)
                    made.setdefault(setting, {})[technique] = one
        return made

    def _settings(self, network: str, bits: int) -> Iterator[BudgetSetting]:
        """Those that allow so many bits, the most rules first."""
        for rules in sorted(self.budgets, reverse=True):
            yield from (BudgetSetting(network, most, rules) for most in self.bits if bits <= most)

    def _proposals(self, name: str) -> Iterator[_Proposal]:
        """Of every length, each set of dimensions that some technique proposes."""
        trials, statistics = self.trials, TrafficStatistics.of(self.trials.sample)
        counts = range(1, len(trials.workload.schema) + 1)
        for bits in sorted((n for n in self.lengths if n <= max(self.bits)), key=lambda n: abs(n - USUAL_LENGTH)):
            split = SPLITS[name](trials.sample, bits)
            regular = SPLITS["regular"](trials.sample, bits)
            proposed: dict[tuple[int, ...], dict[str, int]] = {}
            for selection in self.selections:
                evidence = Evidence(statistics, split if selection in EVALUATING else regular, 0)
                sets = {select(selection, evidence, n) for n in counts}
                for at, dims in enumerate(
                    sorted(sets, key=lambda dims: split.waste(dims).deliveries)[:SETS_PER_SELECTION]
                ):
                    proposed.setdefault(dims, {})[f"{selection} + {name}"] = at
            for dims, techniques in proposed.items():
                index = split.index(dims)
                if isinstance(index, GridIndex | SelectiveIndex):
                    yield _Proposal(bits, index, techniques)

    def _try(self, proposal: _Proposal) -> None:
        """With ever fewer members, until there are fewer rules than anybody asks for: fewer only waste more."""
        fewest = self.trials.fewest(proposal.index)
        for at, members in enumerate(TRIED_MEMBERS):
            if members is None and proposal.length > MAX_UNLIMITED_LENGTH:
                continue
            room = {network: self._room(proposal, at, network, fewest[network]) for network in self.networks}
            wanted = {network: most for network, most in room.items() if most}
            if not wanted:
                continue
            outcomes, few = self._outcomes(proposal.index, members, wanted)
            for network, outcome in outcomes.items():
                for technique, setting, rank in self._ranked(proposal, at, network, outcome.waste.deliveries):
                    best = self._best.get((technique, setting))
                    if outcome.rules <= setting.rules and (best is None or rank < best.rank):
                        self._best[technique, setting] = _Best(rank, proposal.index, members)
            if few:
                return

    def _ranked(
        self, proposal: _Proposal, at: int, network: str, deliveries: int
    ) -> Iterator[tuple[str, BudgetSetting, Rank]]:
        for technique, number in proposal.techniques.items():
            rank = (deliveries, -proposal.length, -number, -at)
            for setting in self._settings(network, proposal.index.bits):
                yield technique, setting, rank

    def _room(self, proposal: _Proposal, at: int, network: str, fewest: int) -> int:
        """The most rules with which it could be the best of some technique, if no more than this were delivered."""
        ranked = self._ranked(proposal, at, network, fewest)
        better = (
            setting.rules
            for technique, setting, rank in ranked
            if (best := self._best.get((technique, setting))) is None or rank < best.rank
        )
        return max(better, default=0)

    def _outcomes(
        self, index: GridIndex | SelectiveIndex, members: int | None, room: dict[str, int]
    ) -> tuple[dict[str, Outcome], bool]:
        """As `FrontierTrials.within`. Lengths beyond the bits that dimensions can use give the same index again."""
        known = self._known.setdefault(_content(index), {})
        if members in known:
            before, outcomes, few = known[members]
            if all(most <= before.get(network, 0) for network, most in room.items()):
                return {n: outcomes[n] for n, most in room.items() if n in outcomes and outcomes[n].rules <= most}, few
        known[members] = room, *self.trials.within(index, members, room, min(self.budgets))
        return known[members][1:]


def _content(index: GridIndex | SelectiveIndex) -> object:
    """What tells the indexes of one way to cut the same sample apart."""
    if isinstance(index, GridIndex):
        return index.order
    return tuple((region.number, region.rectangle, region.grid.order) for region in index.regions)


def judged(trials: FrontierTrials, network: str, index: Index, members: int | None) -> JudgedIndex:
    """What an index does that has been made for a network."""
    aside, unseen, drifted = (
        trials.outcomes(index, members, trial)[network] for trial in (trials.aside, trials.unseen, trials.drifted)
    )
    return JudgedIndex(aside.waste.deliveries, unseen, drifted.waste)
