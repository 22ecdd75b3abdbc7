"""The papers' techniques tried on a workload: each selection of dimensions with each way to split.

Techniques choose by the training events of a summary, and events that none of them has seen judge them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from pleroma.errors import TuningError
from pleroma.evaluation.grid_evaluator import GridEvaluator
from pleroma.evaluation.judge import Judge, Outcome
from pleroma.evaluation.network_judge import NetworkJudge
from pleroma.selection.advice_question import Advice, AdviceQuestion, rank
from pleroma.selection.dimension_selection import EVALUATING, select
from pleroma.selection.evidence import Dimensions, Evidence
from pleroma.selection.splits import SPLITS, SplitMethod
from pleroma.selection.traffic_statistics import TrafficStatistics

FINALISTS_PER_LENGTH = 2
"""Where rules are limited, so many sets of dimensions are judged for every length."""

T = TypeVar("T")


class _Candidate(NamedTuple):
    """A length of dz and a set of dimensions that a technique may choose."""

    length: int
    dimensions: Dimensions


class TechniqueTrials:
    """Tries techniques that choose by statistics and one judge's events, and are judged by the events of another."""

    def __init__(
        self,
        question: AdviceQuestion,
        statistics: TrafficStatistics,
        training: Judge | NetworkJudge,
        unseen: Judge | NetworkJudge,
    ) -> None:
        self._question = question
        self._statistics = statistics
        self._training, self._unseen = training, unseen
        self._regular = GridEvaluator(training.sample, question.bits)
        self._unlimited = GridEvaluator(unseen.sample, question.bits)

    def tried(self) -> Iterator[Advice]:
        for name in self._question.splits:
            yield from self._with_split(name)

    def _with_split(self, name: str) -> Iterator[Advice]:
        """What a way to split does with all dimensions, then with those of each selection."""
        methods = self._methods(name)
        known: dict[_Candidate, Outcome] = {}
        for selection in (None, *self._question.selections):
            candidates, seconds = self._candidates(selection, methods)
            best = self._best(candidates, methods, known)
            index, making = timed(partial(methods[best.length].index, best.dimensions))
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
            sets, choosing = timed(partial(self._selected, selection, split))
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
        return min(candidates, key=lambda each: rank(known[each], self._question.rules))


def _finalists(split: SplitMethod, sets: Sequence[Dimensions]) -> list[Dimensions]:
    """The sets of dimensions that waste least with the bits alone, whatever the rules."""
    return sorted(set(sets), key=lambda dims: split.waste(dims).deliveries)[:FINALISTS_PER_LENGTH]


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What some work returns, and the seconds it took."""
    start = time.perf_counter()
    made = work()
    return made, time.perf_counter() - start
