"""Who may publish under which number: the principal of the advertisement, at its host.

The networks that know the principal behind a socket ask here for every event that enters. Events under the number of
somebody else are dropped there. They are counted by the host where they came in and the principal who sent them, and
the log says so now and then.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping

import structlog

from pleroma.control.state.records import Registered
from pleroma.control.state.registrations import Registrations
from pleroma.routing import HostId

FORGED_LOG_SECONDS = 10.0
"""Between two lines about the same sender of forged events."""

log = structlog.get_logger("pleroma.control")


class EntryGuard:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.forged: Counter[tuple[HostId, str]] = Counter()
        """Events under numbers of others, by host and principal."""
        self._advertisements: Mapping[int, Registered] = {}
        self._clock = clock
        self._said: dict[tuple[HostId, str], float] = {}

    def follow(self, registrations: Registrations) -> None:
        """Go by the registrations in force, now and from now on."""
        self._advertisements = registrations.by_publisher

    def may_publish(self, number: int, principal: str, host: HostId) -> bool | None:
        """Whether the number is the principal's at this host; None if it is nobody's, or nobody's any more."""
        found = self._advertisements.get(number)
        return None if found is None else found.principal == principal and found.host == host

    def count(self, host: HostId, principal: str, sender: object) -> None:
        """An event came in under the number of somebody else. `sender` is the socket that it came from."""
        who = host, principal
        self.forged[who] += 1
        now = self._clock()
        if now - self._said.get(who, -FORGED_LOG_SECONDS) >= FORGED_LOG_SECONDS:
            self._said[who] = now
            log.warning(
                "events under the number of another publisher",
                host=host,
                principal=principal,
                socket=str(sender),
                dropped=self.forged[who],
            )
