"""What the replanner has published, in the lake: a row of `windows` for each, and one of `decisions` for each search.

A window that is there is never written again. Whoever publishes looks whether it is there, and of two who do so at the
same moment Delta refuses one, who looks again. So a window is published once, however many replanners there are and
whenever they die. A decision is recorded in the same way, and amended in place when its outcome is known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa

from pleroma.errors import DamagedFile, LakeError
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.lake_table import Landing, TableState
from pleroma.pipeline.lake.lake_tables import TABLES
from pleroma.pipeline.lake.moments import utc
from pleroma.pipeline.lake.table_files import Condition, ValueSpan
from pleroma.replanning.decisions import Decision
from pleroma.replanning.reported_counts import PACKET_COUNTERS, reported_counts
from pleroma.replanning.windows import TrafficWindow

JournalTable = Literal["windows", "decisions"]
_SAME = ("events", "refused", "unjudged", "deliveries", "wanted", "drift", "empty_before", "pairs")
"""Columns of a window that are called as it calls them."""


@dataclass(frozen=True, slots=True)
class Journal:
    """Windows and decisions of a schema. Windows are told apart by their start and their end."""

    lake: Lake
    schema: str

    def publish(self, window: TrafficWindow) -> bool:
        """Write a window; False if it was published before, and then nothing has changed."""
        return self._land("windows", _window_row(window))

    def record(self, decision: Decision) -> bool:
        """Write the decision at a window; False if there is one already, and then nothing has changed."""
        return self._land("decisions", _decision_row(decision))

    def amend(self, decision: Decision) -> None:
        """Write a decision in place of the one at the same window."""
        row = _decision_row(decision)
        where = (self._mine, *_at(row["since"], row["until"]))
        with suppress(DamagedFile):  # the one before was in it, as far as anybody knows
            if self.lake.table("decisions").rewrite(where, lambda _: _table("decisions", row)):
                return
        self.record(decision)

    def window(self, start: datetime, end: datetime) -> TrafficWindow | None:
        return next(map(_window, self._rows("windows", _at(start, end))), None)

    def decision(self, start: datetime, end: datetime) -> Decision | None:
        return next(map(_decision, self._rows("decisions", _at(start, end))), None)

    def begun(self) -> datetime | None:
        """The start of the first window to the millisecond, if there is one."""
        spans = self.lake.table("windows").spans("since", [self._mine])
        return min((each.least for each in spans), default=None)

    def windows(self, newest: int | None = None) -> list[TrafficWindow]:
        """All windows, oldest first, or only the `newest` so many."""
        found = map(_window, self._newest("windows", newest))
        return sorted(found, key=lambda each: (each.start, each.end))[_last(newest)]

    def decisions(self, newest: int | None = None) -> list[Decision]:
        found = map(_decision, self._newest("decisions", newest))
        return sorted(found, key=lambda each: (each.window, each.end))[_last(newest)]

    @property
    def _mine(self) -> Condition:
        return Condition("schema", "==", self.schema)

    def _land(self, name: JournalTable, row: Mapping[str, Any]) -> bool:
        key = f"{name} of {self.schema}"

        def decide(state: TableState) -> Landing | None:
            if self._rows(name, _at(row["since"], row["until"])):
                return None
            return Landing(_table(name, row), {key: state.landed(key) + 1})

        return bool(self.lake.table(name).land(decide))

    def _newest(self, name: JournalTable, newest: int | None) -> list[dict[str, Any]]:
        """All rows, or those of the files that are needed for the newest so many."""
        if newest is None:
            return self._rows(name)
        first = first_of_newest(self.lake.table(name).spans("since", [self._mine]), newest)
        return self._rows(name, () if first is None else (Condition("since", ">=", first),))

    def _rows(self, name: JournalTable, conditions: Sequence[Condition] = ()) -> list[dict[str, Any]]:
        table = self.lake.table(name)
        rows: list[dict[str, Any]] = table.rows((self._mine, *conditions), None, self.lake.noting(table)).to_pylist()
        return rows


def first_of_newest(spans: Iterable[ValueSpan], count: int) -> Any:
    """A value from which on files have at least so many rows, as late as can be known; None if they have not."""
    first, rows = None, 0
    for each in sorted(spans, key=lambda span: span.most, reverse=True):
        first = each.least if first is None else min(first, each.least)
        rows += each.rows
        if rows >= count:
            return first
    return None


def _at(start: datetime, end: datetime) -> tuple[Condition, ...]:
    return Condition("day", "==", _day(start)), Condition("since", "==", start), Condition("until", "==", end)


def _day(moment: datetime) -> str:
    return f"{utc(moment):%Y-%m-%d}"


def _last(newest: int | None) -> slice:
    return slice(None if newest is None else -newest, None)


def _table(name: JournalTable, row: Mapping[str, Any]) -> Any:
    kinds = TABLES[name].schema
    return pa.table({each: pa.array([row[each]], kinds.field(each).type) for each in kinds.names}, schema=kinds)


def _window_row(window: TrafficWindow) -> dict[str, Any]:
    said = window.reported
    return {name: getattr(window, name) for name in _SAME} | {
        "schema": window.schema,
        "day": _day(window.start),
        "since": utc(window.start),
        "until": utc(window.end),
        "epoch": window.epoch,
        "waste": window.waste.rate,
        "reported_delivered": None if said is None else said.delivered,
        "reported_wanted": None if said is None else said.wanted,
        "reported_wasted": None if said is None else said.wasted,
        "matched": list(zip(window.attributes, window.matched, strict=True)),
        "epochs": sorted(window.epochs.items()),
        "histograms": list(zip(window.attributes, window.counts, strict=True)),
    }


def _window(row: Mapping[str, Any]) -> TrafficWindow:
    said = tuple(row[f"reported_{name}"] for name in PACKET_COUNTERS)
    return TrafficWindow(
        schema=row["schema"],
        attributes=tuple(name for name, _ in row["matched"]),
        start=row["since"],
        end=row["until"],
        epochs=dict(row["epochs"]),
        matched=tuple(count for _, count in row["matched"]),
        counts=tuple(tuple(counts) for _, counts in row["histograms"]),
        reported=None if said[0] is None else reported_counts(*said),
        **{name: row[name] for name in _SAME},
    )


def _decision_row(decision: Decision) -> dict[str, Any]:
    same = ("schema", "epoch", "reason", "detail", "outcome", "new_epoch", "technique", "rules", "seconds")
    return {name: getattr(decision, name) for name in same} | {
        "day": _day(decision.window),
        "since": utc(decision.window),
        "until": utc(decision.end),
        "waste_before": None if decision.before is None else decision.before.rate,
        "waste_after": None if decision.after is None else decision.after.rate,
        "decision": json.dumps(decision.to_json(), ensure_ascii=False, allow_nan=False),
    }


def _decision(row: Mapping[str, Any]) -> Decision:
    try:
        return Decision.from_json(json.loads(row["decision"]))
    except ValueError as error:
        raise LakeError(f"is no decision: {error}", field=f"decision of {row['since']}") from None
