"""Which process leads: whoever holds an office in etcd, for as long as it keeps its lease alive."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Self

import structlog

from pleroma.control.log.etcd.etcd_lease import LEAD_OFFICE, EtcdLease, OfficeHolder
from pleroma.control.log.etcd.etcd_log import EtcdLog
from pleroma.errors import LogError

LEASE_SECONDS = 5
"""So long after a process that leads was last heard of, another may lead."""
_WATCH_SECONDS = 30.0
_RETRY_SECONDS = 0.5

log = structlog.get_logger("pleroma.service")


def this_process() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


class LeadOffice:
    """Use it as `async with`: it follows who leads, and may be claimed. It has a connection to the log of its own."""

    def __init__(self, url: str, lease_seconds: int = LEASE_SECONDS) -> None:
        self.holder: OfficeHolder | None = None
        self._url = url
        self._lease_seconds = lease_seconds
        self._log: EtcdLog | None = None
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._log = await asyncio.to_thread(EtcdLog.open, self._url)
        self._office = self._log.office(LEAD_OFFICE)
        self.holder = await asyncio.to_thread(self._office.holder)
        self._task = asyncio.create_task(self._watch(), name="office")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._log is not None  # noqa: S101 (it was entered)
        assert self._task is not None  # noqa: S101
        self._task.cancel()
        await asyncio.to_thread(self._office.close)
        await asyncio.to_thread(self._log.close)
        with suppress(asyncio.CancelledError):
            await self._task

    async def claim(self, lost: Callable[[], None]) -> EtcdLease | None:
        """The lease, unless another process leads. `lost` is called on the event loop if the lease is lost."""
        loop = asyncio.get_running_loop()

        def tell() -> None:
            with suppress(RuntimeError):  # the loop may be closed
                loop.call_soon_threadsafe(lost)

        claim = asyncio.to_thread(self._office.claim, this_process().encode(), self._lease_seconds, tell)
        claiming = asyncio.ensure_future(claim)
        try:
            claimed = await asyncio.shield(claiming)
        except asyncio.CancelledError:  # nobody would release it
            with suppress(LogError):
                if isinstance(claimed := await claiming, EtcdLease):
                    await asyncio.to_thread(claimed.release)
            raise
        return claimed if isinstance(claimed, EtcdLease) else None

    async def vacant(self) -> None:
        """Wait until no process leads, as far as is known."""
        while self.holder is not None:
            self._changed.clear()
            await self._changed.wait()

    async def _watch(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self._office.wait_for_change, self.holder, _WATCH_SECONDS)
                self.holder = await asyncio.to_thread(self._office.holder)
            except LogError as error:
                log.info("who leads cannot be found out", reason=error.reason)
                await asyncio.sleep(_RETRY_SECONDS)
            self._changed.set()
