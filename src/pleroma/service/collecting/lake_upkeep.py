"""The lake is maintained in a thread of its own, so that landing goes on meanwhile.

That is due once an hour, and earlier when many files were landed: nobody who makes small files makes the lake slow to
open for longer than some minutes.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from threading import Event

from pleroma.errors import LakeError
from pleroma.service.collecting.lake_writer import LakeWriter
from pleroma.service.collecting.settled_clock import SettledClock

_HOUR_SECONDS = 3600.0
_NEXT_TRY_SECONDS = 60.0
"""After a failure. Health names it until then, also when whatever was lost is back."""


MANY_LANDED_FILES = 128
"""After so many files it is not waited until the hour is over."""
CALM_SECONDS_BEFORE_REMOVAL = 86_400.0
"""For so long after the clock of the machine was set, nothing is removed for being old."""
LEAST_PAUSE_SECONDS = 300.0
"""From one maintenance to the next, however many files are landed."""


class LakeUpkeep:
    """Call `begin_if_due` whenever nothing is to be landed."""

    def __init__(
        self, lake_url: str, keep_days: float, days: SettledClock, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.writer = LakeWriter(lake_url, "lake upkeep", _HOUR_SECONDS)
        self._lake_url = lake_url
        self._keep_days = keep_days
        self._days = days
        self._clock = clock
        self._due, self._due_for_files = -math.inf, -math.inf
        """When it is due in any case, and when it is due if many files were landed."""
        self._files = 0
        """How many were landed since the last maintenance began."""
        self._running: asyncio.Task[None] | None = None
        self._closing = Event()

    def begin_if_due(self) -> asyncio.Task[None] | None:
        """Begin maintenance in the background, if it is time for it and the last one has ended."""
        due = self._due if self._files < MANY_LANDED_FILES else min(self._due, self._due_for_files)
        if self._clock() < due or (self._running is not None and not self._running.done()):
            return None
        if not self._days.is_calm(CALM_SECONDS_BEFORE_REMOVAL):
            return None
        self._files = 0
        self._running = asyncio.create_task(self._maintain())
        return self._running

    def landed(self, files: int) -> None:
        """Take note of so many new files."""
        self._files += files

    async def _maintain(self) -> None:
        has_succeeded = await self.writer.try_write("maintenance", self._work)
        self._due = self._clock() + (_HOUR_SECONDS if has_succeeded else _NEXT_TRY_SECONDS)
        self._due_for_files = self._clock() + LEAST_PAUSE_SECONDS

    def _work(self) -> None:
        """Runs in the thread, with a lake of its own: whoever lands does not wait for its locks."""
        from pleroma.pipeline.lake.lake import Lake
        from pleroma.pipeline.lake.maintenance import maintain

        failed = maintain(
            Lake(self._lake_url), keep_days=self._keep_days, now=self._days.now(), advance=self._go_on
        ).failed
        if failed:
            raise LakeError(failed[0].reason)

    def _go_on(self, _: float) -> None:
        """Is called after each table. The process ends when the thread has, and a lost store is waited for by table."""
        if self._closing.is_set():
            raise LakeError("is stopped", field="maintenance")

    def close(self) -> None:
        """Begin nothing more; the table that the thread is at it still ends."""
        self._closing.set()
        if self._running is not None:
            self._running.cancel()
        self.writer.close()
