"""The partial result of a task of the summary pass, as rows on their way to be merged.

A partial result is cut into pieces: the head, with the drawn events, and pieces with the counts of so many boxes each.
Pieces with the same number add up wherever they meet, so the counts of millions of subscriptions need not fit in one
row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pleroma.arrays.types import Ints
from pleroma.content import Schema
from pleroma.content.arrow_columns import column_type, from_columns, to_columns
from pleroma.content.batch import EventBatch
from pleroma.content.event_draw import EventDraw
from pleroma.selection.traffic_statistics import TrafficStatistics
from pleroma.selection.traffic_summary import PartialSummary

HEAD_PIECE = -1
BOXES_PER_PIECE = 32_768
"""Boxes whose counts are in one piece."""
MERGE_TASKS = 16
"""Tasks that merge rows of the same piece at once, at most."""

PARTIAL_SQL = "part int, piece int, sums binary, tickets binary, drawn binary"
PARTIAL_COLUMNS = pa.schema(
    [
        ("part", pa.int32()),
        ("piece", pa.int32()),
        ("sums", pa.binary()),
        ("tickets", pa.binary()),
        ("drawn", pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True)
class PartialRows:
    """Makes rows of partial results and the other way round, for a schema, a number of boxes and a size of draw."""

    schema: Schema
    boxes: int | None
    """None if there are no statistics: the head is then all there is."""
    draw: int

    def rows(self, part: int, found: PartialSummary) -> Iterator[pa.RecordBatch]:
        statistics, draw = found.statistics, found.draw
        yield _row(part, HEAD_PIECE, _head(found), draw.tickets, _table(draw.events))
        if statistics is None:
            return
        for number, begin in enumerate(range(0, statistics.boxes, BOXES_PER_PIECE)):
            counts = np.stack(
                [each[begin : begin + BOXES_PER_PIECE] for each in (statistics.covered, statistics.alone)]
            )
            yield _row(part, number, counts.ravel())

    def merged_rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Merge rows of the same piece; this runs on the executors."""
        sums, draw, part = self._summed(batches)
        for piece, each in sums.items():
            if piece == HEAD_PIECE:
                yield _row(part, piece, each, draw.tickets, _table(draw.events))
            else:
                yield _row(part, piece, each)

    def partial(self, batches: Iterable[pa.RecordBatch]) -> PartialSummary:
        """The result that all rows make together."""
        sums, draw, _ = self._summed(batches)
        events, refused = sums.get(HEAD_PIECE, np.zeros(2, np.int64))[:2].tolist()
        statistics = None if self.boxes is None else self._statistics(events, self.boxes, sums)
        return PartialSummary(events, statistics, draw, refused)

    def _statistics(self, events: int, boxes: int, sums: dict[int, Ints]) -> TrafficStatistics:
        dims = len(self.schema)
        head = iter(sums.get(HEAD_PIECE, np.zeros(_head_size(dims), np.int64))[2:].tolist())
        matches = next(head)

        def taken(*shape: int) -> Ints:
            return np.fromiter(head, np.int64, int(np.prod(shape))).reshape(shape)

        values, products, touched = taken(dims), taken(2, dims, dims), taken(dims)
        pairs, false_rates = taken(dims, dims), taken(dims, dims)
        counts = [sums[piece].reshape(2, -1, dims) for piece in range(len(sums) - 1)]
        empty = np.zeros((2, boxes, dims), np.int64)
        covered, alone = np.concatenate(counts, axis=1) if counts else empty
        return TrafficStatistics(events, boxes, values, products, touched, pairs, false_rates, matches, covered, alone)

    def _summed(self, batches: Iterable[pa.RecordBatch]) -> tuple[dict[int, Ints], EventDraw, int]:
        sums: dict[int, Ints] = {}
        draw, waiting = EventDraw.none(self.schema, self.draw), []
        part = 0
        for batch in batches:
            for row in batch.to_pylist():
                part = row["part"]
                mine = np.frombuffer(row["sums"], np.int64)
                sums[row["piece"]] = sums[row["piece"]] + mine if row["piece"] in sums else mine
                if row["piece"] == HEAD_PIECE:
                    tickets = np.frombuffer(row["tickets"], np.uint64)
                    waiting.append(EventDraw(self.draw, tickets, self._events(row["drawn"])))
                    if sum(len(each.tickets) for each in waiting) > 2 * self.draw:
                        draw, waiting = EventDraw.merged([draw, *waiting]), []
        return dict(sorted(sums.items())), EventDraw.merged([draw, *waiting]), part

    def _events(self, data: bytes) -> EventBatch:
        table = pa.ipc.open_stream(data).read_all()
        return from_columns(self.schema, {name: table[name] for name in self.schema.names})


def _head(found: PartialSummary) -> Ints:
    """Counts of events and, where there are statistics, all their sums but those by box."""
    counts = np.array([found.events, found.refused], np.int64)
    if (statistics := found.statistics) is None:
        return counts
    names = ("values", "products", "touched", "pairs", "false_rates")
    sums = (getattr(statistics, name).ravel() for name in names)
    return np.concatenate([counts, np.array([statistics.matches], np.int64), *sums])


def _head_size(dims: int) -> int:
    return 3 + 2 * dims + 4 * dims * dims


def _row(part: int, piece: int, sums: Ints, tickets: Any = None, drawn: bytes | None = None) -> pa.RecordBatch:
    columns = ([part], [piece], [sums.tobytes()], [None if tickets is None else tickets.tobytes()], [drawn])
    return pa.record_batch(
        [pa.array(each, field.type) for each, field in zip(columns, PARTIAL_COLUMNS, strict=True)],
        schema=PARTIAL_COLUMNS,
    )


def _table(events: EventBatch) -> bytes:
    schema = pa.schema([(attribute.name, column_type(attribute)) for attribute in events.schema.attributes])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(pa.table(to_columns(events), schema=schema))
    return bytes(sink.getvalue())
