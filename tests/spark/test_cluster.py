"""Work on a real cluster, of which a worker is killed in the middle.

In the middle is certain: tasks say that they have begun, and on which worker, and wait until the kill is over.
"""

import dataclasses
import shutil
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pleroma.content.arrow_columns import from_columns, to_columns
from pleroma.errors import UnknownName
from pleroma.index import IndexPlan
from pleroma.lab.lab_names import MARK
from pleroma.pipeline.lake.lake import Lake, between
from pleroma.pipeline.lake.moments import UNIX_EPOCH
from pleroma.pipeline.passes.summary_pass import gather
from pleroma.pipeline.watch.replanner import Replanner
from pleroma.pipeline.watch.streaming_job import start_watching
from pleroma.pipeline.watch.window_counts import CountWindows, LakeHistory, WindowCounter
from pleroma.replanning.decisions import WatchSettings
from pleroma.replanning.windows import TrafficWindow
from pleroma.selection import traffic_summary
from pleroma.selection.advice import AdviceQuestion, advise_from
from pleroma.workloads import EXPRESSIVE, generate
from support.watch_cases import SCHEMA, WINDOW, Recorded, land, new_lake

PATIENCE = 180.0
PARTS = 4
US = timedelta(microseconds=1)
WATCH = WatchSettings(window=10, lateness=5, threshold=0.3, patience=2, cool_down=20, least=100, draw=2_000)


def holding(folder, free=0, then=iter):
    """A kernel that works as `then`. Before, each task leaves a file with its worker's name and, but for the first
    `free` parts, waits for a file called `go`."""
    folder, mark, patience = str(folder), MARK, PATIENCE  # modules of tests are not known on executors

    def kernel(batches):
        import os
        import time
        from pathlib import Path

        from pyspark import TaskContext

        part = TaskContext.get().partitionId()
        (Path(folder) / f"{part}.{os.environ[mark]}").touch()
        limit = time.monotonic() + patience
        while part >= free and not (Path(folder) / "go").exists() and time.monotonic() < limit:
            time.sleep(0.05)
        yield from then(batches)

    return kernel


def begun(folder):
    """By worker: the parts that were begun there."""
    found = {}
    for name in sorted(path.name for path in folder.iterdir() if path.name != "go"):
        part, _, worker = name.partition(".")
        found.setdefault(worker, set()).add(int(part))
    return found


@contextmanager
def worker_killed_during(job, cluster, folder, parts):
    """Begin a job of tasks that are `holding`, wait until these parts have begun, kill a worker that has most of them,
    and let the others go. Yields the result."""
    cluster.start(*(worker for worker in cluster.workers if worker not in cluster.running))
    with ThreadPoolExecutor(1) as threads:
        result = threads.submit(job)
        try:
            limit = time.monotonic() + PATIENCE
            while not parts <= set().union(*begun(folder).values()):
                assert time.monotonic() < limit, f"only {begun(folder)} began"
                assert not result.done(), result.result()
                time.sleep(0.02)
            before = begun(folder)
            victim = max(cluster.workers, key=lambda worker: len(before.get(worker.name, ())))
            cluster.kill(victim)
            (folder / "go").touch()
            found = result.result(timeout=PATIENCE)
        finally:
            (folder / "go").touch()
    again = set().union(*(done for worker, done in begun(folder).items() if worker != victim.name))
    assert before[victim.name] <= again, "what the killed worker had done or begun was done again elsewhere"
    yield found


def test_tuning_finds_the_same_plan_when_a_worker_is_killed(cluster, cluster_spark, tmp_path):
    """Two parts are done when it happens, two are being worked on; the killed worker has one of both at least."""
    from pyspark.sql.pandas.types import from_arrow_schema

    data = generate(dataclasses.replace(EXPRESSIVE, events=3_000, subscriptions=120, distribution="zipfian", width=0.2))
    marks = tmp_path / "marks"
    marks.mkdir()
    columns = pa.table(to_columns(data.events) | {"id": np.arange(3_000)})
    for part in range(PARTS):
        pq.write_table(columns.take(np.arange(part, 3_000, PARTS)), tmp_path / f"{part}.parquet")
    folder = str(tmp_path)

    def read(numbers):
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from pq.read_table(f"{folder}/{number}.parquet").to_batches()

    kernel = holding(marks, free=PARTS - len(cluster.workers), then=read)
    held = cluster_spark.range(0, PARTS, 1, PARTS).mapInArrow(kernel, from_arrow_schema(columns.schema))

    def job():
        return gather(held, data.schema, data.subscriptions, draw=2_000, statistics=True)

    here = traffic_summary.summarise_traffic(data.events, data.subscriptions, draw=2_000, statistics=True)
    with worker_killed_during(job, cluster, marks, set(range(PARTS))) as there:
        assert there.events == here.events == 3_000
        question = AdviceQuestion(data.subscriptions, 16, compare=True, selections=("evs", "cs"), splits=("regular",))
        mine, its = (advise_from(each, question) for each in (here, there))
        assert [IndexPlan(1, each.index).dumps() for each in its] == [IndexPlan(1, each.index).dumps() for each in mine]
        for each in dataclasses.fields(here.statistics):
            assert np.array_equal(getattr(there.statistics, each.name), getattr(here.statistics, each.name)), each.name


def test_watching_loses_nothing_when_a_worker_is_killed(cluster, cluster_spark, tmp_path, monkeypatch):
    """Windows, and the plan that is handed over, are those of one process that was left alone."""
    marks = tmp_path / "marks"
    marks.mkdir()
    here = new_lake(tmp_path / "here")
    for number in range(6):
        land(here, number, shifted=number >= 3)
    there = Lake.at(str(shutil.copytree(tmp_path / "here", tmp_path / "there")))

    def held(*arguments):
        return holding(marks, then=CountWindows(*arguments))

    monkeypatch.setattr("pleroma.pipeline.watch.streaming_job.CountWindows", held)
    told, controller = [], Recorded()

    def job():
        assert start_watching(cluster_spark, there, "stock", WATCH, controller, told.append, once=True).wait(PATIENCE)

    with worker_killed_during(job, cluster, marks, {0}):
        alone = Recorded()
        expected = in_one_process(here, alone)
        windows = [each for each in told if isinstance(each, TrafficWindow)]
        assert [each.to_json() for each in windows] == [each.to_json() for each in expected]
        assert [each.events for each in windows] == [300] * len(windows)
        assert [(epoch, index.to_json()) for epoch, index in controller.taken] == [
            (epoch, index.to_json()) for epoch, index in alone.taken
        ]
        assert len(controller.taken) == 1


def in_one_process(lake, controller):
    """The windows but the last, which nothing that came later has closed."""
    counter = WindowCounter(SCHEMA, LakeHistory(lake, "stock"), WINDOW // US)
    cells = {}
    table = lake.event_table("stock")
    for batch in table.rows().combine_chunks().to_batches():
        for start, _, found in counter.count(batch):
            cells.setdefault(UNIX_EPOCH + start * US, Counter()).update(found)
    del cells[max(cells)]

    def gathering(start, end, subscriptions):
        rows = table.rows(between("at", start, end))
        events = from_columns(SCHEMA, {name: rows[name] for name in SCHEMA.names})
        return traffic_summary.summarise_traffic(events, subscriptions, numbers=rows["id"].to_numpy(), draw=WATCH.draw)

    told = []
    Replanner(lake, SCHEMA, WATCH, controller, gathering, told.append).close_windows(cells)
    return [each for each in told if isinstance(each, TrafficWindow)]


def test_a_worker_of_another_cluster_is_not_killed(cluster):
    with pytest.raises(UnknownName):
        cluster.kill(dataclasses.replace(cluster.workers[0], name="spark_else_1"))
