"""Leases: what a program registered under a lease stays for as long as the program renews the lease.

The time of the last renewal is kept here, in memory only, of leases that something was registered under. After a
restart every lease has a whole period again, so no program loses anything because it could not renew meanwhile. That a
lease has expired is a command in the log like any other.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Self

import structlog

from pleroma.control import Controller, Expire, Registered
from pleroma.control.state.registrations import Lease
from pleroma.errors import NotFound, NotInstalled, NotThere

MAX_EMPTY_LEASES = 64
"""Leases of a principal that are remembered though nothing is registered under them any more."""
_CHECKS_PER_PERIOD = 10
"""How often to look for overdue leases; but at least once a second."""

log = structlog.get_logger("pleroma.service")


class LeaseKeeper:
    """As `async with`, it withdraws what is registered under leases that were not renewed for `seconds`."""

    def __init__(self, controller: Controller, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._controller = controller
        self._clock = clock
        self._renewed_at: dict[Lease, float] = {}
        self._stuck: set[Lease] = set()
        """Leases whose failure to expire was logged."""
        self._task: asyncio.Task[None] | None = None
        self.overdue()  # the period of all leases in the log begins now
        controller.state.registrations.subscribe(self)

    def on_registered(self, registered: Registered) -> None:
        """Something was registered, here or by another process: its lease lasts for a whole period again."""
        if registered.lease is not None:
            self.begin(registered.principal, registered.lease)

    def on_withdrawn(self, registered: Registered) -> None:
        """A lease under which nothing is left is forgotten when it is overdue."""

    def extend(self, principal: str, name: str) -> None:
        """Begin another period of a lease that there is: something is about to be registered under it.

        Of others nothing is noted: whoever asks may not be allowed to register anything.
        """
        lease = principal, name
        if lease in self._renewed_at:
            self._renewed_at[lease] = self._clock()

    def begin(self, principal: str, name: str) -> None:
        """Begin the first period of a lease, or another one: something was registered under it."""
        self._renewed_at[principal, name] = self._clock()

    def renew(self, principal: str, name: str) -> Mapping[str, Registered]:
        """Renew a lease for another period; returns what is registered under it."""
        lease = principal, name
        leased = self._held.get(lease, {})
        if not leased and lease not in self._renewed_at:
            raise NotFound("nothing is registered under this lease, or no longer", field="lease", value=name)
        self._renewed_at[lease] = self._clock()
        return leased

    def overdue(self) -> list[Lease]:
        """The leases to expire now. An overdue lease that nothing is registered under is forgotten.

        So are the oldest of those if a principal has many: to register something and to withdraw it leaves one behind.
        """
        now, held = self._clock(), self._held
        for lease in held:
            self._renewed_at.setdefault(lease, now)
        late = [lease for lease, then in self._renewed_at.items() if now - then >= self.seconds]
        empty = sorted(self._renewed_at.keys() - held.keys(), key=self._renewed_at.__getitem__, reverse=True)
        kept: Counter[str] = Counter()
        for lease in empty:
            kept[lease[0]] += 1
            if kept[lease[0]] > MAX_EMPTY_LEASES or now - self._renewed_at[lease] >= self.seconds:
                del self._renewed_at[lease]
        return [lease for lease in late if lease in held]

    async def expire(self) -> None:
        """Expire the overdue leases. One that cannot expire now, as when the disk is full, is tried again next time."""
        await self._controller.settled()
        late = self.overdue()
        self._stuck.intersection_update(late)
        for lease in late:
            principal, name = lease
            await self._controller.settled()
            withdrawn = len(self._held.get(lease, ()))
            try:
                with suppress(NotInstalled):  # it is durable, and the other leases do not wait for a slow switch
                    await self._controller.submit(Expire(name, principal), patience=0.0)
            except NotThere:
                continue  # everything under it was withdrawn in this moment
            except Exception as error:  # whatever it is, the other leases still expire
                if lease not in self._stuck:
                    log.warning("a lease cannot expire now", principal=principal, lease=name, reason=str(error))
                self._stuck.add(lease)
                continue
            await self._controller.settled()
            log.info("a lease expired", principal=principal, lease=name, withdrawn=withdrawn)
            if lease not in self._held:
                self._renewed_at.pop(lease, None)

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
            await asyncio.sleep(min(self.seconds / _CHECKS_PER_PERIOD, 1.0))
            await self.expire()

    @property
    def _held(self) -> Mapping[Lease, Mapping[str, Registered]]:
        return self._controller.state.registrations.by_lease
