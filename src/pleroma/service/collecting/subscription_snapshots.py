"""Snapshots of the subscriptions in the lake: which ones were in force, and since when.

A snapshot is valid until the next one of its schema. So its time is that of the change, which is noticed a moment
after it happened, and not the time at which the snapshot is written.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pleroma.control import Controller
from pleroma.service.collecting.lake_writer import LakeWriter

if TYPE_CHECKING:
    from pleroma.pipeline.lake.lake import Lake

CHANGE_CHECK_SECONDS = 0.1
"""How often to look whether anything has changed: so exact are the times of snapshots."""
_MIN_SNAPSHOT_SECONDS = 1.0
"""From a snapshot to the next, or four times what the last one took, if that is more."""
_INSTANT = timedelta(microseconds=1)


class SubscriptionSnapshots:
    """Call `notice_changes` every `CHANGE_CHECK_SECONDS`, also while snapshots are written, and `land` now and then."""

    def __init__(self, controller: Controller, lake: Lake, writer: LakeWriter) -> None:
        self._controller = controller
        self._lake = lake
        self._writer = writer
        self._ids: dict[str, tuple[str, ...]] = {}
        """The subscriptions in the last snapshot of each schema."""
        self._newest: dict[str, datetime] = {}
        """The time since which the last snapshot of each schema is valid."""
        self._position = -1
        """The log position whose state the snapshots have."""
        self._unchanged = datetime.now(UTC)
        """When the state was last seen as the snapshots have it."""
        self._due = 0.0

    def notice_changes(self) -> bool:
        """Whether the state has changed since the snapshots; if not, they are valid until now at least."""
        if self._position != self._controller.position:
            return True
        self._unchanged = datetime.now(UTC)
        return False

    async def land(self, at_once: bool = False) -> None:
        """Write a snapshot of each schema whose subscriptions changed, unless the last ones were just written."""
        if not self.notice_changes() or not (at_once or time.monotonic() >= self._due):
            return
        begin, failures, since = time.monotonic(), self._writer.failures, self._unchanged
        rows_by_schema = self._rows()
        self._position, self._unchanged = self._controller.position, datetime.now(UTC) + _INSTANT
        for name, rows in rows_by_schema.items():
            ids = tuple(row[0] for row in rows)
            if self._ids.get(name) != ids and await self._writer.try_write(self._land_one, name, since, rows):
                self._ids[name] = ids
        if self._writer.failures != failures:
            self._position, self._unchanged = -1, since  # once more
        self._due = time.monotonic() + max(_MIN_SNAPSHOT_SECONDS, 4 * (time.monotonic() - begin))

    def _rows(self) -> dict[str, list[tuple[str, str, str, str]]]:
        state = self._controller.state
        rows: dict[str, list[tuple[str, str, str, str]]] = {name: [] for name in state.schemas}
        for each in state.registrations.values():
            if each.kind == "subscription":
                rows[each.schema].append((each.id, each.principal, each.host, each.boxes))
        return rows

    def _land_one(self, name: str, since: datetime, rows: list[tuple[str, str, str, str]]) -> None:
        """Write a snapshot with a time later than any before it, whatever the clock says. Runs in the thread."""
        if name not in self._newest:
            self._newest[name] = max((each.since for each in self._lake.snapshots(name)), default=since - _INSTANT)
        since = max(since, self._newest[name] + _INSTANT)
        self._lake.land_subscriptions(name, since, rows)
        self._newest[name] = since
