"""Settling: of a subscription or an advertisement that has ended, the rows `begun` and `ended` become one row `over`.

So the rows that everybody who asks about registrations has to read stay few. The row `over` is added first, and both
others are removed in a second commit. Rows of the same registration say the same together and apart, so whoever reads
in between, or after a process that died there, gets the same answers; the next one to settle does what is left.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.lake_table import Landing, TableState
from pleroma.pipeline.lake.landed import RegistrationTable
from pleroma.pipeline.lake.registration_history import (
    BEGUN,
    ENDED,
    ENTRY_COLUMNS,
    OVER,
    TimedRegistration,
    entries_of,
    table_of,
    timed,
)
from pleroma.pipeline.lake.table_files import Condition


def settle(lake: Lake, kind: RegistrationTable, name: str) -> int:
    """Settle the registrations of a schema that have ended: how many."""
    table, schema = lake.table(kind), lake.schema(name)
    of_schema, key = Condition("schema", "==", name), f"settled {kind} of {name}"
    unsettled = of_schema, Condition("state", "in", (BEGUN, ENDED))
    ended: set[TimedRegistration] = set()

    def added(state: TableState) -> Landing | None:
        ended.clear()
        ended.update(each for each in timed([table.rows(unsettled, ENTRY_COLUMNS)]) if each.until is not None)
        if not ended:
            return None
        first = min(each.until for each in ended if each.until is not None)
        settled = of_schema, Condition("state", "==", OVER), Condition("until", ">=", first)
        new = ended - set(timed([table.rows(settled, ENTRY_COLUMNS)]))
        in_order = sorted(new, key=lambda each: (each.until, each.since, each.row))
        return Landing(table_of(kind, schema, in_order, OVER), {key: state.landed(key) + 1})

    def rest(rows: Any) -> Any | None:
        is_left = [(row, since) not in gone for row, since, _ in entries_of(rows)]
        return None if all(is_left) else rows.filter(pa.array(is_left))

    table.land(added)
    gone = {(row, since) for row, since, _ in ended}
    if gone:
        table.rewrite(unsettled, rest)
    return len(gone)
