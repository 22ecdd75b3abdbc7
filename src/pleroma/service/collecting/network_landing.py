"""The network in the lake: its switches, links and hosts, the limits of its tables, and the room that was found."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from pleroma.control import Controller
from pleroma.routing import SwitchId, Topology
from pleroma.service.collecting.lake_writer import LakeWriter

if TYPE_CHECKING:
    from pleroma.pipeline.lake.lake import Lake

_CHECK_SECONDS = 1.0
"""How often to look whether the network has changed."""


class KnownNetwork(Protocol):
    """A data plane, as far as it is landed."""

    def topology(self) -> Topology:
        """The whole known network, whether or not its parts are there now."""

    def rooms(self) -> Mapping[SwitchId, int]:
        """How many rules switches turned out to have room for, where that is known."""


class NetworkLanding:
    def __init__(
        self,
        network: KnownNetwork,
        controller: Controller,
        lake: Lake,
        writer: LakeWriter,
        now: Callable[[], datetime],
    ) -> None:
        self._now = now
        self._network = network
        self._controller = controller
        self._lake = lake
        self._writer = writer
        self._landed: tuple[Topology, dict[SwitchId, int]] | None = None
        self._due = 0.0

    async def land(self, at_once: bool = False) -> None:
        """Land the network if it has changed, unless somebody has just looked."""
        if not at_once and time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _CHECK_SECONDS
        known = self._network.topology(), dict(self._network.rooms())
        if known != self._landed:
            now, position = self._now(), self._controller.position
            written = await self._writer.try_write("topology", self._lake.land_topology, *known, now, position)
            self._landed = known if written else None  # once more, also if the network is as it was before
