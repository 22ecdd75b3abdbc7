"""Advice on an index: all techniques are tried on a workload and judged by events that none of them has seen."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.errors import TuningError, UnknownName
from pleroma.evaluation.grid_evaluator import GridEvaluator
from pleroma.evaluation.judge import Judge, Outcome
from pleroma.evaluation.network_judge import NetworkJudge
from pleroma.evaluation.placement import Placement
from pleroma.index import MAX_MEMBERS, GridIndex, Index, SelectiveIndex, TreeIndex, Waste
from pleroma.index.tree_walk import LEAF
from pleroma.learning.fitting import Budget
from pleroma.learning.learner import learn
from pleroma.selection.dimension_selection import EVALUATING, select
from pleroma.selection.evidence import Dimensions, Evidence
from pleroma.selection.splits import SPLITS, SplitMethod
from pleroma.selection.traffic_summary import TrafficSummary, summarise_traffic

DEFAULT_SPLITS = ("regular", "adaptive", "selective")
"""Ways to split the event space that send an event once."""
LEARNED = "learned"
"""The technique of a tree grown for the training events: `learning.learner`."""
LEARNED_FROM_ALL = "learned from all events"
"""The technique of a tree grown for more events than fit into one process: `learning.level_growth`."""
SHORTER_LENGTHS = (8, 10, 12, 14, 16, 20)
"""Bits that techniques may shorten their dz to when rules are limited."""
MAX_UNLIMITED_BITS = 10
"""Covers of dz up to so many bits need no limit on their members."""
LONG_DZ_MEMBERS = 32
"""The limit on members for longer dz where only rules are limited."""
FINALISTS_PER_LENGTH = 2
"""Where rules are limited, so many sets of dimensions are judged for every length."""
DEFAULT_SELECTIONS = ("evs", "sms", "emcs", "sfs", "cs", "pfs-cmm", "ges")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Advice:
    """A technique, the index it made from the training events, and what that does with the others."""

    technique: str
    dimensions: Dimensions
    index: Index
    outcome: Outcome
    members: int | None
    """The limit on dz per subscription that goes with it."""
    unlimited: Waste
    """What the bits alone would waste, with as many dz per subscription as it takes: the papers' figure."""
    by_count: dict[int, Waste]
    """By number of dimensions: the waste of this technique on the events it learned from, under the limit."""
    seconds: float
    """For choosing dimensions, for every count, and making the index; not for judging."""

    @property
    def plan_members(self) -> int:
        """The limit as a plan states it."""
        return MAX_MEMBERS if self.members is None else self.members

    @property
    def bits(self) -> dict[str, int]:
        """Bits by attribute, those without left out; where regions differ, the most that any gives."""
        names = self.index.schema.names
        if isinstance(self.index, TreeIndex):
            return {names[d]: n for d, n in sorted(_deepest(self.index).items())}
        grids: list[GridIndex] = []
        if isinstance(self.index, SelectiveIndex):
            grids = [region.grid for region in self.index.regions]
        elif isinstance(self.index, GridIndex):
            grids = [self.index]
        most = {names[d]: max(g.axes[d].bits if d in g.axes else 0 for g in grids) for d in self.dimensions}
        return {name: bits for name, bits in most.items() if bits}

    @property
    def rectangles(self) -> int:
        return len(self.index.regions) - 1 if isinstance(self.index, SelectiveIndex) else 0


@dataclass(frozen=True, slots=True, eq=False)
class AdviceQuestion:
    """What an index is wanted for, what it may take, and which techniques to try."""

    subscriptions: Sequence[Filter]
    bits: int
    max_members: int | None = 32
    """The limit on dz per subscription."""
    rules: int | None = None
    """The limit on rules. Techniques may take fewer bits to keep to it; those that do not keep to it come last.

    Without a limit, the tree may take as many rules as the best of the others.
    """
    selections: Sequence[str] = DEFAULT_SELECTIONS
    """Ways to select dimensions: each is tried with every split, beside all dimensions."""
    splits: Sequence[str] = DEFAULT_SPLITS
    seed: int = 0
    placement: Placement | None = None
    """Where the subscriptions are: waste is then that at the hosts, and rules are those of the fullest switch.

    Without a placement, every subscription has a port of its own on one switch.
    """

    def __post_init__(self) -> None:
        for name in self.splits:
            if name not in SPLITS:
                raise UnknownName("split", name, SPLITS)

    @property
    def lengths(self) -> list[int]:
        """The lengths of dz that techniques may choose from."""
        return [self.bits] if self.rules is None else [*(n for n in SHORTER_LENGTHS if n < self.bits), self.bits]

    def members(self, length: int) -> int | None:
        """The limit on dz per subscription for dz of a length.

        Where rules are limited and members are not, covers of long dz would have more members than any table has room
        for.
        """
        if self.max_members is None and self.rules is not None and length > MAX_UNLIMITED_BITS:
            return LONG_DZ_MEMBERS
        return self.max_members

    def judge(self, events: EventBatch) -> Judge | NetworkJudge:
        if self.placement is None:
            return Judge(self.subscriptions, events)
        return NetworkJudge(self.subscriptions, events, self.placement)


def advise(events: EventBatch, question: AdviceQuestion) -> list[Advice]:
    """Every selection with every way to split, and a learned tree, best first. Half of the events train, half judge."""
    return advise_from(summarise_traffic(events, question.subscriptions, seed=question.seed), question)


def advise_from(
    summary: TrafficSummary,
    question: AdviceQuestion,
    *,
    grow_from_all: Callable[[Budget], TreeIndex] | None = None,
    advance: Callable[[float], None] = lambda _: None,
) -> list[Advice]:
    """The same advice from the summary of a pass over the events.

    `grow_from_all` makes another tree, from more events than the summary has.
    """
    trial = _Trial(summary, question)
    found = []
    for name in question.splits:
        for each in trial.with_split(name):
            found.append(each)
            advance(1)
    budget = trial.tree_budget(found)
    for name, grow in ((LEARNED, trial.learn), (LEARNED_FROM_ALL, grow_from_all)):
        if grow is not None:
            found.append(trial.tree(name, grow, budget))
            advance(1)
    rules = question.rules
    return sorted(
        found, key=lambda each: (exceeds_room(each.outcome, rules), each.outcome.waste.rate, each.outcome.rules)
    )


class _Candidate(NamedTuple):
    """A length of dz and a set of dimensions that a technique may choose."""

    length: int
    dimensions: Dimensions


class _Trial:
    """Tries techniques on a summary of the traffic: they choose by its training events, and unseen ones judge them."""

    def __init__(self, summary: TrafficSummary, question: AdviceQuestion) -> None:
        self._question = question
        self._statistics = summary.statistics
        self._training, self._unseen = question.judge(summary.training), question.judge(summary.judging)
        self._regular = GridEvaluator(self._training.sample, question.bits)
        self._unlimited = GridEvaluator(self._unseen.sample, question.bits)

    def with_split(self, name: str) -> Iterator[Advice]:
        """What a way to split does with all dimensions, then with those of each selection."""
        methods = self._methods(name)
        known: dict[_Candidate, Outcome] = {}
        for selection in (None, *self._question.selections):
            candidates, seconds = self._candidates(selection, methods)
            best = self._best(candidates, methods, known)
            index, making = _timed(partial(methods[best.length].index, best.dimensions))
            members = self._question.members(best.length)
            yield Advice(
                name if selection is None else f"{selection} + {name}",
                best.dimensions,
                index,
                self._unseen.outcome(index, members),
                members,
                self._unlimited.waste_of(index),
                {len(each.dimensions): known[each].waste for each in candidates if each.length == best.length},
                seconds + making,
            )

    def _methods(self, name: str) -> dict[int, SplitMethod]:
        """By length: the split, unless it has no use for so few bits."""
        found = {}
        for length in self._question.lengths:
            try:
                found[length] = SPLITS[name](self._training.sample, length)
            except TuningError:
                if length == self._question.bits:
                    raise
        return found

    def _candidates(self, selection: str | None, methods: Mapping[int, SplitMethod]) -> tuple[list[_Candidate], float]:
        """What a selection proposes for dz of every length, and the seconds it took to choose dimensions."""
        found: dict[_Candidate, None] = {}
        seconds = 0.0
        for length, split in methods.items():
            sets, choosing = _timed(partial(self._selected, selection, split))
            seconds += choosing
            if self._question.rules is not None:  # there are many lengths to try
                sets = _finalists(split, sets)
            found |= dict.fromkeys(_Candidate(length, dims) for dims in sets)
        return list(found), seconds

    def _selected(self, selection: str | None, split: SplitMethod) -> list[Dimensions]:
        """All dimensions, or for every count those that a selection chooses; it may evaluate them with the split."""
        everything = tuple(range(len(self._training.sample.schema)))
        if selection is None:
            return [everything]
        evidence = Evidence(self._statistics, split if selection in EVALUATING else self._regular, self._question.seed)
        return [select(selection, evidence, count) for count in range(1, len(everything) + 1)]

    def _best(
        self,
        candidates: Sequence[_Candidate],
        methods: Mapping[int, SplitMethod],
        known: dict[_Candidate, Outcome],
    ) -> _Candidate:
        """The best candidate by the training events. What is not `known` of any candidate is found out."""
        for each in candidates:
            if each not in known:
                index = methods[each.length].index(each.dimensions)
                known[each] = self._training.outcome(index, self._question.members(each.length))
        return min(candidates, key=lambda each: _rank(known[each], self._question.rules))

    def tree_budget(self, found: Sequence[Advice]) -> Budget:
        """The rules that the question allows, or as many as the best of the other techniques takes."""
        question = self._question
        rules = question.rules
        if rules is None:
            rules = min(found, key=lambda each: _rank(each.outcome, question.rules)).outcome.rules
        return Budget(rules=max(rules, 1), own=() if question.placement is None else question.placement.limits)

    def learn(self, budget: Budget) -> TreeIndex:
        """A tree learned from the training events."""
        question, sample = self._question, self._training.sample
        if question.placement is None:
            return learn(sample, question.bits, budget, seed=question.seed).index
        grouped = sample.grouped(question.placement.homes)
        return learn(grouped, question.bits, budget, spread=question.placement.spread, seed=question.seed).index

    def tree(self, name: str, grow: Callable[[Budget], TreeIndex], budget: Budget) -> Advice:
        """What a tree does that is grown within a budget."""
        index, seconds = _timed(lambda: grow(budget))
        members = self._question.max_members
        outcome = self._unseen.outcome(index, members)
        unlimited = self._unlimited.waste_of(index)
        return Advice(name, dimensions_by_use(index), index, outcome, members, unlimited, {}, seconds)


def _finalists(split: SplitMethod, sets: Sequence[Dimensions]) -> list[Dimensions]:
    """The sets of dimensions that waste least with the bits alone, whatever the rules."""
    return sorted(set(sets), key=lambda dims: split.waste(dims).deliveries)[:FINALISTS_PER_LENGTH]


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    """What some work returns, and the seconds it took."""
    start = time.perf_counter()
    made = work()
    return made, time.perf_counter() - start


def exceeds_room(outcome: Outcome, rules: int | None) -> bool:
    """Whether some table needs more rules than it has room for."""
    return outcome.beyond > 0 or (rules is not None and outcome.rules > rules)


def _rank(outcome: Outcome, rules: int | None) -> tuple[int, int]:
    """Orders outcomes: those within the limit by deliveries, then the others by rules."""
    return outcome.rules if exceeds_room(outcome, rules) else 0, outcome.waste.deliveries


def dimensions_by_use(tree: TreeIndex) -> Dimensions:
    """The dimensions that a tree cuts, the most often cut first."""
    return tuple(d for d, _ in Counter(d for d in tree.dimensions if d != LEAF).most_common())


def _deepest(tree: TreeIndex) -> dict[int, int]:
    """By dimension, the most cuts on any path."""
    most: dict[int, int] = {}
    path: dict[int, dict[int, int]] = {0: {}}
    for node, d in enumerate(tree.dimensions):
        cut = path.pop(node)
        if d != LEAF:
            below = cut | {d: cut.get(d, 0) + 1}
            most[d] = max(most.get(d, 0), below[d])
            path[node + 1] = path[tree.layout.right[node]] = below
    return most


def random_halves(events: EventBatch, seed: int) -> tuple[EventBatch, EventBatch]:
    """Events to learn from and events to judge by, drawn at random."""
    shuffled = np.random.default_rng(seed).permutation(len(events))
    return events[np.sort(shuffled[::2])], events[np.sort(shuffled[1::2])]
