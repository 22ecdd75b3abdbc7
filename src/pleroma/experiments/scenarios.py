"""How the scenarios of a sweep are performed. They are independent, so that any process may take any of them.

`one_by_one` performs them in this process; `pleroma.pipeline.passes.spark_sweep` sends them to a Spark cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

ScenarioT = TypeVar("ScenarioT")
ResultT = TypeVar("ResultT")


class Performer(Protocol):
    """Performs a task on every scenario and returns the results in their order.

    Task, scenarios and results must survive pickling, so that none of them is a closure.
    """

    def __call__(
        self, task: Callable[[ScenarioT], ResultT], scenarios: Sequence[ScenarioT], advance: Callable[[float], None]
    ) -> list[ResultT]: ...


def one_by_one(
    task: Callable[[ScenarioT], ResultT], scenarios: Sequence[ScenarioT], advance: Callable[[float], None]
) -> list[ResultT]:
    results = []
    for scenario in scenarios:
        results.append(task(scenario))
        advance(1 / len(scenarios))
    return results
