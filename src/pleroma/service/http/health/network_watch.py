"""Notices when switches are gone, links cut, hosts not reached or tables full, and when they are right again.

Each change is told once: as an item of the stream and as a line of the log. What changes in one moment is one item and
one line, however much it is: a switch that is lost takes its links and hosts with it. After each line there is a rest,
so that a port that comes and goes without end fills no disk; what was different only in between is left out.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Self

import structlog
from prometheus_client.core import Metric

from pleroma.control import Controller
from pleroma.routing import Presence, Topology
from pleroma.service.http.data_plane import DataPlane
from pleroma.service.http.health.network_condition import NetworkCondition, names_by_state, network_item
from pleroma.service.metric_families import gauge

NETWORK_LOOK_SECONDS = 0.5
"""How often to look for what the network does not tell by itself."""
TELLING_REST_SECONDS = 1.0
"""After changes were told, the next ones wait so long."""

log = structlog.get_logger("pleroma.service")


class NetworkWatch:
    """Looks when the network says that it has changed, when somebody asks, and as `async with` by itself.

    A look costs little while nothing changes: it is what a probe of the service's health waits for.
    """

    def __init__(self, controller: Controller, plane: DataPlane, clock: Callable[[], float] = time.monotonic) -> None:
        self._controller = controller
        self._plane = plane
        self._clock = clock
        self._full: tuple[str, ...] = ()
        """Switches with coarser rules, as of the last look at the tables."""
        self._seen: tuple[Presence, Topology, tuple[str, ...]] | None = None
        self._condition = self._told = NetworkCondition()
        self._told_at = -math.inf
        self._task: asyncio.Task[None] | None = None
        plane.on_change(self.look)

    def look(self) -> NetworkCondition:
        """What is wrong now. Whatever has changed since something was last told is told, unless that was just now."""
        seen = self._plane.presence(), self._plane.topology(), self._full
        if seen != self._seen:
            presence, known, full = self._seen = seen
            self._condition = NetworkCondition.of(known, presence, full)
        if self._condition != self._told and self._clock() - self._told_at >= TELLING_REST_SECONDS:
            self._tell()
        return self._condition

    def _tell(self) -> None:
        changes = self._condition.changes_since(self._told)
        self._told, self._told_at = self._condition, self._clock()
        if not changes:  # only their order is another one
            return
        say = log.warning if any(each.is_worse for each in changes) else log.info
        say("the network has changed", **names_by_state(changes))
        self._controller.feed.tell(network_item(changes))

    def metrics(self) -> Iterator[Metric]:
        """To be asked when the state is settled."""
        wrong, known = self.look(), self._plane.topology()
        ready = [(str(name), float(each.state == "ready")) for name, each in self._plane.switches().items()]
        yield gauge("pleroma_switch_ready", "1 while a switch is connected and has its rules", ready, "switch")
        cut, coarse = frozenset(wrong.cut), self._controller.state.router.coarsened
        links = [(str(link), float(str(link) not in cut)) for link in known.links]
        yield gauge("pleroma_link_up", "1 while a link carries events", links, "link")
        what = "1 while a switch has coarser rules than are wanted, for want of room"
        yield gauge(
            "pleroma_switch_table_full", what, [(str(each), float(each in coarse)) for each in known.switches], "switch"
        )
        yield gauge("pleroma_hosts_unreachable", "Hosts that are not reached", [("", len(wrong.unreachable))])

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._watch(), name="network watch")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _watch(self) -> None:
        while True:
            self.look()
            await self._controller.settled()
            self._full = tuple(sorted(self._controller.state.router.coarsened))
            self.look()
            await asyncio.sleep(NETWORK_LOOK_SECONDS)
