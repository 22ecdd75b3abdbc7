"""The scenarios of a sweep, spread over a Spark cluster: each is a job of one task, and all are submitted at once.

So scenarios of very different length fill the cluster evenly, progress is known, and one whose executor is lost is
repeated alone. Tasks, scenarios and results travel pickled in a DataFrame of one row.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, TypeVar

from pleroma.errors import SparkError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

S = TypeVar("S")
R = TypeVar("R")

AT_ONCE = 256
"""So many jobs wait for a core at most; clusters with more cores than this are not kept busy."""


class SparkSweep:
    """A `Performer` (see `pleroma.experiments.scenarios`) on a session's cluster."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __call__(self, task: Callable[[S], R], scenarios: Sequence[S], advance: Callable[[float], None]) -> list[R]:
        results: dict[int, R] = {}
        with ThreadPoolExecutor(max(1, min(len(scenarios), AT_ONCE)), "sweep") as threads:
            jobs = {threads.submit(self._job, task, each): number for number, each in enumerate(scenarios)}
            try:
                for done in as_completed(jobs):
                    results[jobs[done]] = done.result()
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
    """On an executor. A task that fails would fail again: its error is an answer, so that nobody repeats it."""
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
