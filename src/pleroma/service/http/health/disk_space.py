"""How much room the disk has on which the log is."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from prometheus_client.core import Metric

from pleroma.service.metric_families import gauge


class DiskSpace:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._found: tuple[int, int] | None = None
        """Bytes that are free, and bytes in all."""

    async def look(self) -> None:
        """Ask the system, beside the event loop: a disk that hangs keeps nobody waiting but who asks for this."""
        with suppress(OSError):
            usage = await asyncio.to_thread(shutil.disk_usage, self._folder)
            self._found = usage.free, usage.total

    def metrics(self) -> Iterator[Metric]:
        if self._found is not None:
            free, total = self._found
            yield gauge("pleroma_disk_free_bytes", "Room that is left on the disk with the log", [("", free)])
            yield gauge("pleroma_disk_size_bytes", "Size of the disk with the log", [("", total)])
