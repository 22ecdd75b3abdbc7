"""Leases: what a program registered stands for as long as the program is heard of.

When a lease was heard of is known here and nowhere else. It is not written down: after a restart every lease has a
whole period again, so nobody loses anything for having been unable to renew meanwhile. That a lease has expired is a
command like any other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Self

import structlog

from pleroma.control import Controller, Expire, Registered
from pleroma.control.state.registrations import Lease
from pleroma.errors import NotFound, NotThere

_LOOKS = 10
"""In a period; but at least one a second."""

log = structlog.get_logger("pleroma.service")


class LeaseKeeper:
    """As `async with`, it withdraws what stands under leases that were not heard of for `seconds`."""

    def __init__(self, controller: Controller, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._controller = controller
        self._clock = clock
        self._heard: dict[Lease, float] = {}
        self._stuck: set[Lease] = set()  # of which it was said that they cannot expire
        self._task: asyncio.Task[None] | None = None
        self.overdue()  # begins to count for all that stand

    def heard(self, principal: str, name: str) -> None:
        """Something was, or is about to be, registered under this lease."""
        self._heard[principal, name] = self._clock()

    def renew(self, principal: str, name: str) -> Mapping[str, Registered]:
        """For another period; returns what stands under the lease."""
        lease = principal, name
        leased = self._standing.get(lease, {})
        if not leased and lease not in self._heard:
            raise NotFound("nothing is registered under this lease, or no longer", field="lease", value=name)
        self._heard[lease] = self._clock()
        return leased

    def overdue(self) -> list[Lease]:
        """Those to withdraw from now. One that holds nothing is forgotten instead."""
        now, standing = self._clock(), self._standing
        for lease in standing:
            self._heard.setdefault(lease, now)
        late = [lease for lease, then in self._heard.items() if now - then >= self.seconds]
        for lease in late:
            if lease not in standing:
                del self._heard[lease]
        return [lease for lease in late if lease in standing]

    async def expire(self) -> None:
        """Withdraw what is overdue. What cannot be now, as when the disk is full, is so the next time."""
        late = self.overdue()
        self._stuck.intersection_update(late)
        for lease in late:
            principal, name = lease
            try:
                done = await self._controller.submit(Expire(name, principal))
            except NotThere:
                continue  # all of it was withdrawn in this moment
            except Exception as error:  # whatever it is, others wait for their turn
                if lease not in self._stuck:
                    log.warning("a lease cannot expire now", principal=principal, lease=name, reason=str(error))
                self._stuck.add(lease)
                continue
            log.info("a lease expired", principal=principal, lease=name, withdrawn=len(done.value["withdrawn"]))
            if lease not in self._standing:
                self._heard.pop(lease, None)

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._watch(), name="leases")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(min(self.seconds / _LOOKS, 1.0))
            await self.expire()

    @property
    def _standing(self) -> Mapping[Lease, Mapping[str, Registered]]:
        return self._controller.state.registrations.by_lease
