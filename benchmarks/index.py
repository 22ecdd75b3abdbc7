"""Content to bits: encoding events and covering filters, eight dimensions, one core."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pleroma.content import Box, Filter, Integer, Range, Schema
from pleroma.index import GridIndex

STEPS = 4
DIMENSIONS, BITS, MEMBERS = 8, 23, 32
EVENTS, FILTERS, ROUNDS = 2_000_000, 2_000, 5


def run(advance: Callable[[float], None]) -> dict[str, Any]:
    schema = Schema("bench", tuple(Integer(f"d{i}", False, 0, 4095) for i in range(DIMENSIONS)))
    index = GridIndex.regular(schema, BITS)
    random = np.random.default_rng(1)
    points = random.integers(0, 4096, (EVENTS, DIMENSIONS)).astype(np.float64)
    filters = _filters(schema, random)
    index.encode(points[:1000])
    index.cover(filters[0], max_members=MEMBERS)
    advance(1)

    assert (index.encode(points).words[:, 0] == _plain_numpy(points)).all(), "the two encoders disagree"
    ours, theirs = [], []
    for _ in range(ROUNDS):  # in turns, so that both meet the same moods of the machine
        ours.append(_seconds(lambda: index.encode(points)))
        theirs.append(_seconds(lambda: _plain_numpy(points)))
    advance(1)

    tracemalloc.start()
    index.encode(points)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    advance(1)

    seconds = _seconds(lambda: [index.cover(f, max_members=MEMBERS) for f in filters])
    advance(1)
    return {
        "encode_events_per_s": round(EVENTS / min(ours)),
        "encode_ratio": round(min(theirs) / min(ours), 2),
        "covers_per_s": round(FILTERS / seconds),
        "memory_bytes_per_event": round(peak / EVENTS, 2),
        "numpy_events_per_s": round(EVENTS / min(theirs)),
    }


def _plain_numpy(points: NDArray[np.float64]) -> NDArray[np.uint64]:
    """The same codes, the way one writes it with array operations: cells, then bit by bit into place."""
    used = [BITS // DIMENSIONS + (d < BITS % DIMENSIONS) for d in range(DIMENSIONS)]
    codes = np.zeros(len(points), np.uint64)
    cells = [(points[:, d] * (2.0 ** used[d] / 4096)).astype(np.uint64) for d in range(DIMENSIONS)]
    for place in range(BITS):
        d, turn = place % DIMENSIONS, place // DIMENSIONS
        bit = cells[d] >> np.uint64(used[d] - 1 - turn) & np.uint64(1)
        codes |= bit << np.uint64(63 - place)
    return codes


def _filters(schema: Schema, random: np.random.Generator) -> list[Filter]:
    width = random.integers(100, 1000, (FILTERS, DIMENSIONS))
    low = random.integers(0, 4096 - width)
    rows = zip(low.tolist(), (low + width).tolist(), strict=True)
    return [Filter(schema, (Box(tuple(map(Range, lows, highs))),)) for lows, highs in rows]


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
