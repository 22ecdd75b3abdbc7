"""Matching in software: up to a million subscriptions, narrow and wide, against brute force and an R-tree, one core."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from pleroma.matching.bit_sets import BitSets
from pleroma.matching.constraint_table import Constraint, ConstraintTable, Occurrences
from pleroma.matching.engine import Engine
from pleroma.matching.matcher import Matches
from pleroma.matching.pivots import Pivots
from pleroma.matching.scan import Scan
from pleroma.matching.tama.tama import Tama

SIZES = (1_000, 10_000, 100_000, 1_000_000)
STEPS = 10
CONSTRAINTS = 10
EVENTS, COMPARED, CHANGES, ROUNDS = 2_000, 40, 20_000, 3
PAPER_MS = 3.23
RTREE_DIMENSIONS, RTREE_BOXES = 3, 20_000


def run(advance: Callable[[float], None]) -> dict[str, Any]:
    _compile()
    advance(1)
    narrow: dict[str, Any] = {}
    for size in SIZES:
        random = np.random.default_rng(1)
        table = subscriptions(random, size, attributes=1_000, width=0.01)
        events = occurrences(random, EVENTS, attributes=1_000, per_event=100)
        engine, built = _built(table)
        narrow[f"ms_at_{size}"] = _milliseconds(engine, events)
        advance(1)
    statistics = engine.statistics()
    narrow |= {
        "structure": statistics.parts[0].structure,
        "paper_ms": PAPER_MS,
        "ms_one_by_one": _one_by_one(engine, events),
        "tama_ms": _milliseconds(_built(table, "tama")[0], occurrences(random, 100, 1_000, 100)),
        "memory_ratio": round(statistics.memory / (16 * statistics.constraints), 2),
        "build_s": round(built, 2),
    }
    growth = {str(size): narrow[f"ms_at_{size}"] for size in SIZES}
    narrow_ratio = _ratio_to_brute(engine, table, occurrences(random, COMPARED, 1_000, 100))
    changes = _changes(engine, random)
    del engine, table
    advance(1)

    random = np.random.default_rng(2)
    table = subscriptions(random, SIZES[-1], attributes=20, width=0.3)
    events = occurrences(random, EVENTS, attributes=20, per_event=20)
    engine, built = _built(table)
    advance(1)
    statistics = engine.statistics()
    found = engine.match_batch(events)
    two_threads = _two_threads(engine, events)
    wide = {
        "ms": _milliseconds(engine, events),
        "matches_per_event": round(len(found.ids) / len(events), 2),
        "structure": statistics.parts[0].structure,
        "ms_one_by_one": _one_by_one(engine, events),
        "ms_two_threads": two_threads,
        "memory_gb": round(statistics.memory / 1e9, 2),
        "build_s": round(built, 2),
    }
    advance(1)
    wide_ratio = _ratio_to_brute(engine, table, occurrences(random, COMPARED, 20, 20))
    throughput = round(1000 / two_threads)
    advance(1)
    return {
        "tama_paper": narrow,
        "wide": wide,
        "ratio_to_brute": {"tama_paper": narrow_ratio, "wide": wide_ratio},
        "ratio_to_rtree": _ratio_to_rtree(),
        **changes,
        "batch_events_per_s_two_threads": throughput,
        "growth": growth,
    }


def subscriptions(random: np.random.Generator, size: int, attributes: int, width: float) -> ConstraintTable:
    """Each has its constraints on attributes drawn without repetition."""
    chosen = np.empty((size, CONSTRAINTS), np.int32)
    for start in range(0, size, 50_000):
        stop = min(start + 50_000, size)
        lots = random.random((stop - start, attributes), np.float32)
        chosen[start:stop] = np.argpartition(lots, CONSTRAINTS, axis=1)[:, :CONSTRAINTS]
    low = random.uniform(0, 1 - width, size * CONSTRAINTS)
    return ConstraintTable.of(np.arange(size), np.arange(size + 1) * CONSTRAINTS, chosen.ravel(), low, low + width)


def occurrences(random: np.random.Generator, size: int, attributes: int, per_event: int) -> Occurrences:
    chosen = np.stack([random.permutation(attributes)[:per_event] for _ in range(size)])
    return Occurrences.of(np.arange(size + 1) * per_event, chosen.ravel(), random.random(size * per_event))


def _compile() -> None:
    random = np.random.default_rng(0)
    table, events = subscriptions(random, 3_000, 20, 0.3), occurrences(random, 4, 20, 20)
    for structure in (Scan, Pivots, BitSets, Tama):
        engine = Engine(structure.name)
        engine.add_all(table)
        engine.match_batch(events)
        engine.add(-1, table.row(0))
        engine.match_batch(events)


def _built(table: ConstraintTable, structure: str = "auto") -> tuple[Engine, float]:
    engine = Engine(structure)
    start = time.process_time()
    engine.add_all(table)
    return engine, time.process_time() - start


def _milliseconds(engine: Engine, events: Occurrences) -> float:
    """Of processor time, per event; the least of a few rounds."""
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        engine.match_batch(events)
        times.append(time.process_time() - start)
    return round(1000 * min(times) / len(events), 4)


def _one_by_one(engine: Engine, events: Occurrences) -> float:
    """The same with a call for each event, as a broker has it."""
    each = list(events)[:500]
    start = time.process_time()
    for event in each:
        engine.match(event)
    return round(1000 * (time.process_time() - start) / len(each), 4)


def _two_threads(engine: Engine, events: Occurrences) -> float:
    """By the clock, since that is what a second thread is for."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        engine.match_batch(events, threads=2)
        times.append(time.perf_counter() - start)
    return round(1000 * min(times) / len(events), 4)


def _ratio_to_brute(engine: Engine, table: ConstraintTable, events: Occurrences) -> float:
    scan = Scan.build(table)
    dead = np.zeros(len(table), np.bool_)
    start = time.process_time()
    rows, ends = scan.search(events, 0, len(events), dead)
    theirs = time.process_time() - start
    found = engine.match_batch(events)
    oracle = Matches(table.ids[rows], ends)
    same = all(np.array_equal(np.sort(ours), np.sort(its)) for ours, its in zip(found, oracle, strict=True))
    assert same, "the matcher and brute force disagree"
    return round(1000 * theirs / len(events) / _milliseconds(engine, events), 1)


def _ratio_to_rtree() -> float | str:
    """Boxes in few dimensions, where an R-tree does well."""
    try:
        from rtree import index  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return "the rtree package is not installed"
    random = np.random.default_rng(3)
    low = random.uniform(0, 0.9, (RTREE_BOXES, RTREE_DIMENSIONS))
    attributes = np.tile(np.arange(RTREE_DIMENSIONS), RTREE_BOXES)
    first = np.arange(RTREE_BOXES + 1) * RTREE_DIMENSIONS
    table = ConstraintTable.of(np.arange(RTREE_BOXES), first, attributes, low.ravel(), (low + 0.1).ravel())
    points = random.random((1_000, RTREE_DIMENSIONS))
    properties = index.Property(dimension=RTREE_DIMENSIONS)
    boxes = ((i, (*each, *(each + 0.1)), None) for i, each in enumerate(low))
    tree = index.Index(boxes, properties=properties)
    start = time.process_time()
    theirs = [sorted(tree.intersection((*point, *point))) for point in points.tolist()]
    seconds = time.process_time() - start
    engine, _ = _built(table)
    events = Occurrences.dense(points)
    assert [sorted(each.tolist()) for each in engine.match_batch(events)] == theirs, "the R-tree disagrees"
    return round(1000 * seconds / len(points) / _milliseconds(engine, events), 1)


def _changes(engine: Engine, random: np.random.Generator) -> dict[str, int]:
    """One by one, while a million stand."""
    table = subscriptions(random, CHANGES, attributes=1_000, width=0.01)
    rows: list[tuple[Constraint, ...]] = [table.row(row) for row in range(CHANGES)]
    start = time.process_time()
    for number, row in enumerate(rows, SIZES[-1]):
        engine.add(number, row)
    inserting = time.process_time() - start
    leaving = random.permutation(SIZES[-1])[:CHANGES].tolist()
    start = time.process_time()
    for number in leaving:
        engine.remove(number)
    deleting = time.process_time() - start
    return {"inserts_per_s": round(CHANGES / inserting), "deletes_per_s": round(CHANGES / deleting)}
