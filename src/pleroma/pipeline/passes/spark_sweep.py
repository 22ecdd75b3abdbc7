"""The scenarios of a sweep, spread over a Spark cluster: each is a job of one task, submitted when its turn comes.

So scenarios of very different length fill the cluster evenly, the long ones first if they are given first. Progress is
known, and a scenario whose executor is lost is repeated alone. Tasks, scenarios and results are sent pickled, in a
DataFrame of one row.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

from pleroma.errors import SparkError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

S = TypeVar("S")
R = TypeVar("R")

JOBS_PER_CORE = 2
"""Jobs that are submitted for a core: one that runs and one that waits, so that the core never waits."""
CORE_CHECK_SECONDS = 2.0
"""How often it is looked whether the cluster has more cores now, or fewer."""


class SparkSweep:
    """A `Performer` (see `pleroma.experiments.scenarios`) on a session's cluster."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __call__(self, task: Callable[[S], R], scenarios: Sequence[S], advance: Callable[[float], None]) -> list[R]:
        results: dict[int, R] = {}
        running: dict[Future[R], int] = {}
        begun = 0
        with ThreadPoolExecutor(max(1, len(scenarios)), "sweep") as threads:
            try:
                while len(results) < len(scenarios):
                    max_running = JOBS_PER_CORE * self._spark.sparkContext.defaultParallelism
                    while begun < len(scenarios) and len(running) < max_running:
                        running[threads.submit(self._job, task, scenarios[begun])] = begun
                        begun += 1
                    for done in wait(running, CORE_CHECK_SECONDS, FIRST_COMPLETED).done:
                        results[running.pop(done)] = done.result()
                        advance(1 / len(scenarios))
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise
        return [results[number] for number in range(len(scenarios))]

    def _job(self, task: Callable[[S], R], scenario: S) -> R:
        work = pickle.dumps((task, scenario))
        frame = self._spark.createDataFrame([(work,)], "work binary").coalesce(1)
        ((answer,),) = frame.mapInArrow(_performed, "answer binary").collect()
        result, error = pickle.loads(answer)  # noqa: S301 (of our own task)
        if error is not None:
            raise error
        found: R = result
        return found


def _performed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs on an executor. A task that fails would fail again, so its error is sent as the answer and not repeated."""
    import pyarrow as pa

    for batch in batches:
        for work in batch.column(0).to_pylist():
            yield pa.RecordBatch.from_arrays([pa.array([_answer(work)], pa.binary())], names=["answer"])


def _answer(work: bytes) -> bytes:
    try:
        task, scenario = pickle.loads(work)  # noqa: S301 (of our own driver)
        return pickle.dumps((task(scenario), None))
    except Exception as error:
        return pickle.dumps((None, error if _travels(error) else SparkError(repr(error), field="scenario")))


def _travels(error: Exception) -> bool:
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 (our own)
    except Exception:
        return False
    return True
