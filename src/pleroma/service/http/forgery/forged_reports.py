"""The forged events that clients report, and where they may have come in.

No switch looks into a packet, so nobody sees a forged event before a client finds its tag wrong. What can be said is at
which ports events may enter the network that reach this client: those of hosts that may send what the client has
subscribed to.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from pleroma.control import ControlState, Registered
from pleroma.control.entry_guard import FORGED_LOG_SECONDS

MAX_SUSPECTED_PORTS = 32
"""Ports that are named, of all that forged events may have entered by."""
MAX_EXAMINED_CELLS = 10_000
"""Cells of hosts that are looked at, so that a report takes milliseconds at most."""

log = structlog.get_logger("pleroma.service")


@dataclass(slots=True)
class SchemaForgeries:
    """The forged events of one schema: how many, and the ports by which the last of them may have entered."""

    events: int = 0
    ports: tuple[str, ...] = ()
    said: float | None = None
    """When the log was told last."""


class ForgedReports:
    """By schema, since the controller started."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._schemas: dict[str, SchemaForgeries] = {}
        self._clock = clock

    def add(self, state: ControlState, subscription: Registered, events: int) -> None:
        """A client reports forged events that came to it because of a subscription."""
        if not events:
            return
        known = self._schemas.setdefault(subscription.schema, SchemaForgeries())
        known.events += events
        now = self._clock()
        if known.said is None or now - known.said >= FORGED_LOG_SECONDS:
            known.said, known.ports = now, entry_ports(state, subscription)
            log.warning(
                "clients report forged events",
                schema=subscription.schema,
                at=subscription.host,
                events=known.events,
                may_enter_at=", ".join(known.ports),
            )

    def shown(self) -> list[dict[str, Any]]:
        return [
            {"schema": name, "events": each.events, "may_enter_at": list(each.ports)}
            for name, each in self._schemas.items()
        ]


def entry_ports(state: ControlState, subscription: Registered) -> tuple[str, ...]:
    """The ports of other hosts that may send events into the region of a subscription: switch, port and host."""
    admissions, left, found = state.rules.admissions, MAX_EXAMINED_CELLS, list[str]()
    for host in state.topology.hosts:
        if host.name == subscription.host or not (cells := admissions.cells_of(host.name)):
            continue  # no switch sends an event back by the port it came from
        left -= cells
        if left < 0 or len(found) == MAX_SUSPECTED_PORTS:
            return (*found, "others")
        if admissions.meets(host.name, subscription.region):
            found.append(f"{host.switch} port {host.port} ({host.name})")
    return tuple(found)
