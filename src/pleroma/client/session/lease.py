"""The lease of a client. By renewing the lease the client says that it is there, and so keeps what it registered.

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
"""So that two may be lost."""
NO_EVENT_KEYS = "off"
"""Where events have no tags."""


class LeaseRenewal(NamedTuple):
    """What the controller answered to a renewal."""

    registered: Set[str]
    """The ids of all registrations under the lease."""
    is_unbroken: bool
    """Whether the lease cannot have expired since the renewal before."""
    event_keys: str = NO_EVENT_KEYS
    """Which keys the tags of events are made with. When it is another, all registrations have other keys."""


def _since_boot() -> float:
    """Seconds, with those in which the machine slept: the controller counts them too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Lease:
    def __init__(self, api: ControllerApi, clock: Callable[[], float] = _since_boot) -> None:
        self.name = uuid.uuid4().hex
        self._api = api
        self._clock = clock
        self._seconds: float | None = None
        """The period: without a renewal for so long, the lease expires. None until the first renewal tells."""
        self._renewed: float | None = None
        """When the last renewal was asked for; None if it is not known whether the lease still stands."""
        self._due = asyncio.Event()

    @property
    def pause(self) -> float | None:
        """Seconds until the next renewal; None while the period is not known."""
        return None if self._seconds is None else self._seconds / RENEWALS_PER_PERIOD

    def begin(self) -> None:
        """Something was registered under the lease: the first renewal is due."""
        if self._seconds is None:
            self._due.set()

    def hurry(self) -> None:
        """Have the lease renewed now."""
        self._due.set()

    def doubt(self) -> None:
        """Have the lease renewed now; it may have expired, or the controller may have forgotten it."""
        self._renewed = None
        self._due.set()

    async def wait(self, seconds: float | None) -> None:
        """Wait until a renewal is due, for at most so many seconds; None: until somebody asks for one."""
        try:
            async with asyncio.timeout(seconds):
                await self._due.wait()
        except TimeoutError:
            pass
        self._due.clear()

    async def renew(self, epochs: Mapping[str, int] | None = None) -> LeaseRenewal | None:
        """Renew the lease; None if it has expired. `epochs` has the plans that the client publishes by, by schema."""
        asked = self._clock()
        using = [{"plans": dict(epochs)}] if epochs else []
        try:
            answer = (await self._api.ask("PUT", f"/v1/leases/{self.name}", *using)).body
            registered, seconds = frozenset(answer["registrations"]), float(answer["seconds"])
            event_keys = str(answer.get("event_keys") or NO_EVENT_KEYS)
        except RequestRefused as refused:
            if refused.status != 404:
                raise
            self._renewed = None
            return None
        except (KeyError, TypeError, ValueError) as error:
            raise ClientError(f"the controller's lease cannot be read: {error!r}", field="lease") from None
        shorter_period = min(seconds, self._seconds or seconds)
        is_unbroken = self._renewed is not None and self._clock() - self._renewed < shorter_period
        self._renewed, self._seconds = asked, seconds
        return LeaseRenewal(registered, is_unbroken, event_keys)
