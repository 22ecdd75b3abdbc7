"""How the scenarios of a sweep are gone through: they do not depend on each other, so anybody may, in any order.

Here one after the other; `pleroma.pipeline.passes.spark_sweep` sends them to a Spark cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

S = TypeVar("S")
R = TypeVar("R")


class Performer(Protocol):
    """Returns results in the order of scenarios. Both, and the task, must survive pickling: no closures."""

    def __call__(self, task: Callable[[S], R], scenarios: Sequence[S], advance: Callable[[float], None]) -> list[R]: ...


def one_by_one(task: Callable[[S], R], scenarios: Sequence[S], advance: Callable[[float], None]) -> list[R]:
    results = []
    for scenario in scenarios:
        results.append(task(scenario))
        advance(1 / len(scenarios))
    return results
