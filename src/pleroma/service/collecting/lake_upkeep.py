"""The lake is maintained once an hour, in a thread of its own, so that landing goes on meanwhile."""

from __future__ import annotations

import asyncio
import time
from threading import Event

from pleroma.errors import LakeError
from pleroma.service.collecting.lake_writer import LakeWriter

_HOUR_SECONDS = 3600.0
_NEXT_TRY_SECONDS = 60.0
"""After a failure. Health names it until then, also when whatever was lost is back."""


class LakeUpkeep:
    """Call `begin_if_due` whenever nothing is to be landed."""

    def __init__(self, lake_url: str, keep_days: float) -> None:
        self.writer = LakeWriter(lake_url, "lake upkeep", _HOUR_SECONDS)
        self._lake_url = lake_url
        self._keep_days = keep_days
        self._due = 0.0
        self._running: asyncio.Task[None] | None = None
        self._closing = Event()

    def begin_if_due(self) -> asyncio.Task[None] | None:
        """Begin maintenance in the background, if it is time for it and the last one has ended."""
        if time.monotonic() < self._due or (self._running is not None and not self._running.done()):
            return None
        self._running = asyncio.create_task(self._maintain())
        return self._running

    async def _maintain(self) -> None:
        has_succeeded = await self.writer.try_write("maintenance", self._work)
        self._due = time.monotonic() + (_HOUR_SECONDS if has_succeeded else _NEXT_TRY_SECONDS)

    def _work(self) -> None:
        """Runs in the thread, with a lake of its own: whoever lands does not wait for its locks."""
        from pleroma.pipeline.lake.lake import Lake
        from pleroma.pipeline.lake.maintenance import maintain

        failed = maintain(Lake(self._lake_url), keep_days=self._keep_days, advance=self._go_on).failed
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
