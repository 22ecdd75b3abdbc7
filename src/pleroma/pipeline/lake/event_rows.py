"""Sampled events and reports as rows of their tables, each batch of a sender once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pleroma.content import Schema
from pleroma.content.arrow_columns import MOMENT_TYPE, to_columns
from pleroma.content.batch import EventBatch
from pleroma.errors import LakeError
from pleroma.pipeline.lake.lake_table import LANDING, Landing, TableState
from pleroma.pipeline.lake.lake_tables import TABLES, EventColumns, attribute_columns
from pleroma.pipeline.lake.landed import ReportedCounters, ReportRow, SampledEvents
from pleroma.pipeline.lake.moments import hours_of, utc

ROW_BITS = 20
"""An event's id is the number of its landing and, in the low bits, its row in the landing."""
MAX_LANDING_ROWS = 1 << ROW_BITS

_PIECE_ROWS = 8192
"""Texts of so many events are converted at once: meanwhile no other thread of the process runs."""

T = TypeVar("T", SampledEvents, ReportedCounters)


def events_landing(schema: Schema, samples: Sequence[SampledEvents]) -> Callable[[TableState], Landing | None]:
    """Decides which of these events a table lacks, and what rows they are."""
    names, columns = EventColumns.of(schema), attribute_columns(schema)

    def decide(state: TableState) -> Landing | None:
        new, senders = _unknown(state, [each for each in samples if len(each.events)])
        if not new:
            return None
        number, counts = state.next_landing, [len(each.events) for each in new]
        if sum(counts) > MAX_LANDING_ROWS:
            raise LakeError(f"at most {MAX_LANDING_ROWS} events are landed at once", field="events", value=sum(counts))
        at = _moments(new)
        own = {
            names.hour: pa.array(hours_of(at), pa.string()),
            names.landing: pa.array(np.full(len(at), number, np.int64)),
            names.at: pa.array(at, MOMENT_TYPE),
            names.epoch: pa.array(np.repeat(np.array([each.epoch for each in new], np.int32), counts)),
            names.rate: pa.array(np.repeat(np.array([each.rate for each in new], np.float64), counts)),
            names.principal: pa.array(
                np.repeat(np.array([each.principal for each in new], object), counts), pa.string()
            ),
        }
        joined = EventBatch(
            schema, tuple(map(np.concatenate, zip(*(each.events.columns for each in new), strict=True)))
        )
        pieces = [joined[row : row + _PIECE_ROWS] for row in range(0, len(at), _PIECE_ROWS)]
        table = pa.concat_tables([pa.table({columns[n]: c for n, c in to_columns(each).items()}) for each in pieces])
        for name, column in own.items():
            table = table.append_column(name, column)
        ids = (number << ROW_BITS) + np.arange(len(table))
        return Landing(table.append_column(names.id, pa.array(ids)), {LANDING: number}, senders)

    return decide


def _moments(samples: Sequence[SampledEvents]) -> NDArray[np.datetime64]:
    for each in samples:
        if each.at.shape != (len(each.events),) or np.isnat(each.at).any():
            raise LakeError(f"{len(each.events)} rows need as many moments", field="at", value=len(each.at))
    return np.concatenate([each.at.astype("datetime64[us]") for each in samples])


def reports_landing(reported: Sequence[ReportedCounters]) -> Callable[[TableState], Landing | None]:
    """Decides which of these reports the table lacks, and what rows they are."""
    kinds = TABLES["reports"].schema

    def rows(number: int, each: ReportedCounters) -> Any:
        moments = np.array([utc(each.at).replace(tzinfo=None)], "datetime64[us]")
        same = {"schema": each.schema, "hour": hours_of(moments)[0], "landing": number, "at": utc(each.at)}
        columns: dict[str, Sequence[Any]] = dict(zip(ReportRow._fields, zip(*each.rows, strict=True), strict=True))
        columns |= {name: [value] * len(each.rows) for name, value in same.items()}
        return pa.table({name: pa.array(columns[name], kinds.field(name).type) for name in kinds.names})

    def decide(state: TableState) -> Landing | None:
        new, senders = _unknown(state, [each for each in reported if each.rows])
        if not new:
            return None
        number = state.next_landing
        return Landing(pa.concat_tables([rows(number, each) for each in new]), {LANDING: number}, senders)

    return decide


def sender_key(sender: str) -> str:
    """The transaction of a sender's batches."""
    return f"from {sender}"


def _unknown(state: TableState, batches: Iterable[T]) -> tuple[list[T], dict[str, int]]:
    """The batches that a table does not have, and how far those of each sender have come then."""
    new: list[T] = []
    come: dict[str, int] = {}
    for each in batches:
        if each.batch is not None:
            key = sender_key(each.batch.sender)
            if each.batch.number <= (come[key] if key in come else state.landed(key)):
                continue
            come[key] = each.batch.number
        new.append(each)
    return new, come
