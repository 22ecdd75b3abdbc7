"""Subscriptions in the lake: which ones were in force, and from when to when.

Changes are noted while they happen, so that a change has its own time in the lake and not the time at which it is
written. Changes of about a second are landed together, with the time of the first.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pleroma.control import Controller
from pleroma.control.state.records import Registered
from pleroma.service.collecting.lake_writer import LakeWriter

if TYPE_CHECKING:
    from pleroma.pipeline.lake.lake import Lake

_MIN_SECONDS = 1.0
"""From a landing to the next, or four times what the last one took, if that is more."""


class SubscriptionLanding:
    """Hears of all registrations of a controller; call `land` now and then."""

    def __init__(self, controller: Controller, lake: Lake, writer: LakeWriter) -> None:
        self._controller = controller
        self._lake = lake
        self._writer = writer
        self._in_force: dict[str, dict[str, Registered]] = {}
        """By schema and id."""
        self._changed = dict.fromkeys(controller.state.schemas, datetime.now(UTC))
        """By schema: since when the lake does not have what is in force."""
        self._due = 0.0
        for each in controller.state.registrations.values():
            self.on_registered(each)
        controller.state.registrations.subscribe(self)

    def on_registered(self, registered: Registered) -> None:
        if registered.kind == "subscription":
            self._in_force.setdefault(registered.schema, {})[registered.id] = registered
            self._changed.setdefault(registered.schema, datetime.now(UTC))

    def on_withdrawn(self, registered: Registered) -> None:
        if registered.kind == "subscription":
            del self._in_force[registered.schema][registered.id]
            self._changed.setdefault(registered.schema, datetime.now(UTC))

    async def land(self, at_once: bool = False) -> None:
        """Land the subscriptions of each schema that has others now, unless some were just landed."""
        if not self._changed or not (at_once or time.monotonic() >= self._due):
            return
        begin, position = time.monotonic(), self._controller.position
        changed, self._changed = self._changed, {}
        standing = {name: list(self._in_force.get(name, {}).values()) for name in changed}
        for name, since in changed.items():
            what = f"subscriptions of {name}"
            if not await self._writer.try_write(what, self._land_one, name, since, standing[name], position):
                self._changed[name] = since  # once more
        self._due = time.monotonic() + max(_MIN_SECONDS, 4 * (time.monotonic() - begin))

    def _land_one(self, name: str, since: datetime, standing: Sequence[Registered], position: int) -> None:
        """Runs in the thread."""
        rows = [(each.id, each.principal, each.host, each.boxes) for each in standing]
        self._lake.land_subscriptions(name, since, rows, position)
