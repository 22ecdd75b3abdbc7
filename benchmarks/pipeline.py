"""The pass over 1 and 10 million events on Spark against its kernels, the source against Parquet; the closed loop."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np

from pleroma.content.batch import EventBatch
from pleroma.experiments.demonstration.closed_loop import ClosedLoop
from pleroma.lab.spark_cluster import SparkCluster
from pleroma.pipeline import read
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.passes.summary_pass import gather, gather_landed
from pleroma.pipeline.spark_session import session
from pleroma.selection.advice import AdviceQuestion, advise_from
from pleroma.selection.traffic_summary import NumberedBatch, SummaryPass, TrafficSummary
from pleroma.workloads import EXPRESSIVE, Workload, generate

STEPS = 10
SIZES = {"1m": 1_000_000, "10m": 10_000_000}
FULL_SIZES = {"10m": 10_000_000, "100m": 100_000_000}
READ_SIZE = "10m"
"""Ways of reading are compared on a lake of this size."""
KERNEL_EVENTS = 10_000_000
"""The kernels alone have all events in memory; their time for one event is compared."""
LANDED_ROWS = 1_000_000
"""Events of a landing: as many as a file has that is not merged any more."""
SUBSCRIPTIONS = 1_000
BITS = 24
SUBSCRIBERS, RATE, SECONDS = 300, 200.0, 60.0
"""Of the demonstration, as it is by default."""
TOLD = ("shift_to_plan_s", "shift_to_settled_s", "missed", "too_many")
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def run(advance: Callable[[float], None], full: bool = False) -> dict[str, Any]:
    """With `full`, 10 and 100 million events, also on a cluster of one worker and of two."""
    sizes = FULL_SIZES if full else SIZES
    with tempfile.TemporaryDirectory(prefix="pleroma-bench-") as folder:
        data = generate(replace(EXPRESSIVE, events=LANDED_ROWS, subscriptions=SUBSCRIPTIONS))
        lakes = {size: _landed(Path(folder) / size, data, events) for size, events in sizes.items()}
        largest = list(sizes)[-1]
        advance(1)
        kernel = _kernel(data, KERNEL_EVENTS) / KERNEL_EVENTS
        advance(1)
        passes = Passes(data, lakes)
        for cores in (1, 2):
            with session(f"local[{cores}]") as spark:
                found = passes.over(spark, f"local[{cores}]", cores)
                advance(2)
                if cores == 2:
                    rows = read(spark, lakes[READ_SIZE].url, data.schema.name)
                    through, _ = _timed(partial(gather, rows, data.schema, data.subscriptions, statistics=True))
                    advance(1)
                    source = _module("_source").measure(spark, lakes[READ_SIZE], data.schema.name)
                    advance(1)
        for workers in (1, 2) if full else ():
            cluster = SparkCluster.up(workers=workers, cores=1, memory="2g")
            with cluster, session(cluster.url, **{"spark.executor.memory": "1g"}) as spark:
                passes.over(spark, f"{workers} workers", workers)
        advising, _ = _timed(lambda: advise_from(found, AdviceQuestion(data.subscriptions, BITS)))
        advance(1)
    landing = _module("_landing").measure()
    advance(1)
    loop = asyncio.run(ClosedLoop(SUBSCRIBERS, RATE, SECONDS, lambda _: None).run())
    advance(1)
    seconds = passes.seconds
    return {
        "events_per_s": {
            where: {size: round(sizes[size] / taken) for size, taken in each.items()} for where, each in seconds.items()
        },
        "events_per_s_per_core": round(sizes[largest] / seconds["local[2]"][largest] / 2),
        "kernel_events_per_s": round(1 / kernel),
        "ratio_to_kernel": {size: round(seconds["local[1]"][size] / (kernel * sizes[size]), 2) for size in sizes},
        "scaling": {
            f"{two}, {size}": round(seconds[one][size] / seconds[two][size], 2)
            for one, two in (("local[1]", "local[2]"), ("1 workers", "2 workers"))
            if two in seconds
            for size in sizes
        },
        "through_java_events_per_s": round(sizes[READ_SIZE] / through),
        **source,
        **landing,
        "advice_s": round(advising, 1),
        "peak_memory_gib": passes.memory,
        "demo": {name: loop.to_json()[name] for name in TOLD} | {"waste": loop.to_json()["waste_at_hosts"]},
    }


class Passes:
    """The statistics pass over lakes of several sizes, in several places: how long it took, and how much memory."""

    def __init__(self, data: Workload, lakes: Mapping[str, Lake]) -> None:
        self.seconds: dict[str, dict[str, float]] = {}
        self.memory: dict[str, Any] = {}
        self._data = data
        self._lakes = lakes

    def over(self, spark: Any, where: str, cores: int) -> TrafficSummary:
        """All lakes, from the smallest; returns what was found in the largest."""
        while spark.sparkContext.defaultParallelism < cores:  # executors of a cluster that are about to come
            time.sleep(0.1)
        smallest = next(iter(self._lakes.values()))
        _pass(spark, smallest, self._data)  # Python's workers start, kernels are loaded
        self.seconds[where] = {}
        found: TrafficSummary
        for size, lake in self._lakes.items():
            with _peak() as peak:
                self.seconds[where][size], found = _timed(partial(_pass, spark, lake, self._data))
            self.memory[f"{where}, {size}"] = peak
        return found


def _module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # where dataclasses look for their module
    spec.loader.exec_module(module)
    return module


def _landed(folder: Path, data: Workload, count: int) -> Lake:
    """So many events, no two of them alike, in files as they are when they have been merged."""
    lake = Lake.at(str(folder))
    lake.land_schema(data.schema)
    for part, rows in enumerate(_parts(data, count)):
        moments = np.datetime64(NOON.replace(tzinfo=None), "us") + np.arange(len(rows)) + part * 1_000_000
        lake.land_events(rows, moments, 1, 1.0)
    return lake


def _parts(data: Workload, count: int) -> Iterator[EventBatch]:
    """Other events of the same kind: those of the workload, each dimension in another order."""
    random = np.random.default_rng(1)
    for begin in range(0, count, LANDED_ROWS):
        columns = {
            name: random.permutation(column)
            for name, column in zip(data.schema.names, data.events.columns, strict=True)
        }
        yield EventBatch.from_columns(data.schema, columns)[: count - begin]


def _kernel(data: Workload, count: int) -> float:
    """Seconds of one thread with all events in memory."""
    once = SummaryPass.of(data.schema, data.subscriptions, statistics=True)
    batches = [
        NumberedBatch(rows, np.arange(len(rows)) + n * LANDED_ROWS) for n, rows in enumerate(_parts(data, count))
    ]
    once.over(
        NumberedBatch(each.events[:1000], each.numbers[:1000]) for each in batches[:1] if each.numbers is not None
    )
    return _timed(lambda: once.over(batches))[0]


def _pass(spark: Any, lake: Lake, data: Workload) -> TrafficSummary:
    return gather_landed(spark, lake, data.schema.name, data.subscriptions, statistics=True)


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


@contextmanager
def _peak() -> Iterator[dict[str, float]]:
    """The most memory of Java's process and of Python's workers together, while it lasts."""
    found = {"java": 0.0, "workers": 0.0}
    over = Event()

    def look() -> None:
        while not over.wait(0.2):
            now = {"java": 0.0, "workers": 0.0}
            for name, resident in _children(Path("/proc/self").resolve().name):
                now["java" if name == "java" else "workers"] += resident
            for kind, most in now.items():
                found[kind] = max(found[kind], round(most / 2**30, 2))

    looking = Thread(target=look, daemon=True)
    looking.start()
    try:
        yield found
    finally:
        over.set()
        looking.join()


def _children(of: str) -> Iterator[tuple[str, int]]:
    """Name and resident bytes of every process below one."""
    parents: dict[str, list[tuple[str, str, int]]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                status = dict(line.split(":", 1) for line in (entry / "status").read_text().splitlines() if ":" in line)
            except OSError:  # it has ended
                continue
            resident = int(status.get("VmRSS", "0 kB").split()[0]) * 1024
            parents.setdefault(status["PPid"].strip(), []).append((entry.name, status["Name"].strip(), resident))
    waiting = [of]
    while waiting:
        for pid, name, resident in parents.get(waiting.pop(), []):
            waiting.append(pid)
            yield name, resident
