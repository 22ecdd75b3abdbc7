"""What a technique of dimension selection may look at, and what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pleroma.evaluation.grid_evaluator import Evaluator
from pleroma.selection.traffic_statistics import TrafficStatistics

Dimensions = tuple[int, ...]
"""Positions of attributes in the schema."""


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What a technique may look at: statistics, and an evaluator that tells what subsets of dimensions would waste."""

    statistics: TrafficStatistics
    evaluator: Evaluator
    seed: int = 0

    @property
    def dimensions(self) -> int:
        return len(self.statistics.values)


Technique = Callable[[Evidence, int], Dimensions]
"""Chooses so many dimensions."""


def ranked(scores: Iterable[float], count: int) -> Dimensions:
    """The dimensions with the highest scores."""
    given = list(scores)
    return tuple(sorted(range(len(given)), key=lambda d: (-given[d], d))[:count])
