"""The lease of a client: by renewing it, the client says that it is there, and so keeps what it registered.

A client that is killed renews nothing, and the controller withdraws its registrations by itself.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping, Set
from typing import TYPE_CHECKING, NamedTuple

from pleroma.errors import ClientError, RequestRefused

if TYPE_CHECKING:
    from pleroma.client.api import ControllerApi

RENEWALS_PER_PERIOD = 3
"""Renewals in a period: two may be lost."""


class LeaseRenewal(NamedTuple):
    """The ids of what stands under a lease, and whether it cannot have expired since it was renewed before."""

    standing: Set[str]
    unbroken: bool


def _since_boot() -> float:
    """Seconds, with those in which the machine slept: the controller counts them too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Lease:
    def __init__(self, api: ControllerApi, clock: Callable[[], float] = _since_boot) -> None:
        self.name = uuid.uuid4().hex
        self._api = api
        self._clock = clock
        self._seconds: float | None = None
        self._renewed: float | None = None
        self._due = asyncio.Event()

    @property
    def pause(self) -> float | None:
        """Seconds until the next renewal; None while the period is not known."""
        return None if self._seconds is None else self._seconds / RENEWALS_PER_PERIOD

    def begin(self) -> None:
        """Something was registered under it."""
        if self._seconds is None:
            self._due.set()

    def hurry(self) -> None:
        """Renew it now."""
        self._due.set()

    def doubt(self) -> None:
        """Nobody knows what the controller still has."""
        self._renewed = None
        self._due.set()

    async def wait(self, seconds: float | None) -> None:
        """Until the next renewal is due; without a number, until somebody asks for one."""
        try:
            async with asyncio.timeout(seconds):
                await self._due.wait()
        except TimeoutError:
            pass
        self._due.clear()

    async def renew(self, plans: Mapping[str, int] | None = None) -> LeaseRenewal | None:
        """None if it has expired. `plans` has the epochs that the client publishes by."""
        asked = self._clock()
        using = [{"plans": dict(plans)}] if plans else []
        try:
            answer = (await self._api.ask("PUT", f"/v1/leases/{self.name}", *using)).body
            standing, seconds = frozenset(answer["registrations"]), float(answer["seconds"])
        except RequestRefused as refused:
            if refused.status != 404:
                raise
            self._renewed = None
            return None
        except (KeyError, TypeError, ValueError) as error:
            raise ClientError(f"the controller's lease cannot be read: {error!r}", field="lease") from None
        unbroken = self._renewed is not None and self._clock() - self._renewed < min(seconds, self._seconds or seconds)
        self._renewed, self._seconds = asked, seconds
        return LeaseRenewal(standing, unbroken)
