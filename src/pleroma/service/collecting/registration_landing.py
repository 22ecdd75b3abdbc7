"""Registrations in the lake: which subscriptions and advertisements were in force, and from when to when.

Changes are noted while they happen, so that a change has its own time in the lake and not the time at which it is
written. Changes of about a second are landed together, with the time of the first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from pleroma.control import Controller
from pleroma.control.state.command import RegistrationKind
from pleroma.control.state.records import Registered
from pleroma.pipeline.lake.landed import REGISTRATION_TABLES, RegistrationTable
from pleroma.service.collecting.lake_writer import LakeWriter

if TYPE_CHECKING:
    from pleroma.pipeline.lake.lake import Lake

_MIN_SECONDS = 1.0
"""From a landing to the next, or four times what the last one took, if that is more."""
_TABLE_OF: dict[RegistrationKind, RegistrationTable] = {
    "subscription": "subscriptions",
    "advertisement": "advertisements",
}


class _Part(NamedTuple):
    """What is landed at once: the registrations of one kind and one schema."""

    table: RegistrationTable
    schema: str


class RegistrationLanding:
    """Hears of all registrations of a controller; call `land` now and then."""

    def __init__(self, controller: Controller, lake: Lake, writer: LakeWriter, now: Callable[[], datetime]) -> None:
        self._now = now
        self._controller = controller
        self._lake = lake
        self._writer = writer
        self._in_force: dict[_Part, dict[str, Registered]] = {}
        """By id."""
        every = [_Part(table, name) for name in controller.state.schemas for table in REGISTRATION_TABLES]
        self._changed = dict.fromkeys(every, self._now())
        """Since when the lake does not have what is in force."""
        self._due = 0.0
        for each in controller.state.registrations.values():
            self.on_registered(each)
        controller.state.registrations.subscribe(self)

    def on_registered(self, registered: Registered) -> None:
        part = _Part(_TABLE_OF[registered.kind], registered.schema)
        self._in_force.setdefault(part, {})[registered.id] = registered
        self._notice(part)

    def on_withdrawn(self, registered: Registered) -> None:
        part = _Part(_TABLE_OF[registered.kind], registered.schema)
        del self._in_force[part][registered.id]
        self._notice(part)

    def _notice(self, part: _Part) -> None:
        if part not in self._changed:
            self._changed[part] = self._now()

    async def land(self, at_once: bool = False) -> None:
        """Land what is in force of each schema where that has changed, unless some was just landed."""
        if not self._changed or not (at_once or time.monotonic() >= self._due):
            return
        begin, position = time.monotonic(), self._controller.position
        changed, self._changed = self._changed, {}
        standing = {part: list(self._in_force.get(part, {}).values()) for part in changed}
        for part, since in changed.items():
            what = f"{part.table} of {part.schema}"
            if not await self._writer.try_write(what, self._land_one, part, since, standing[part], position):
                self._changed[part] = since  # once more
        self._due = time.monotonic() + max(_MIN_SECONDS, 4 * (time.monotonic() - begin))

    def _land_one(self, part: _Part, since: datetime, standing: Sequence[Registered], position: int) -> None:
        """Runs in the thread."""
        rows = [(each.id, each.principal, each.host, each.boxes) for each in standing]
        self._lake.registrations(part.table).land(part.schema, since, rows, position)
