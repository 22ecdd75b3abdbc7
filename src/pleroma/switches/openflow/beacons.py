"""Finding links: every second a beacon leaves every port, and wherever it comes in, there is a link.

A link from which nothing was heard for a while carries nothing, whatever its ports say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from pleroma.routing import Port
from pleroma.routing.presence import Place
from pleroma.switches.openflow.frames import Beacon
from pleroma.switches.openflow.wiring import Wiring

EVERY = 1.0
UNHEARD = 3.5 * EVERY

Sender = Callable[[Callable[[int, int], bytes]], None]
"""Sends, at each port of each switch, what it is given for a datapath and a port."""


class Beacons:
    """`tell` is called when a link was found or lost, or one is heard of again. A fixed wiring needs none of this."""

    def __init__(self, wiring: Wiring, send: Sender, tell: Callable[[], None], key: bytes, domain: str) -> None:
        self.unheard: frozenset[Place] = frozenset()
        """The ends of links that nothing is heard of."""
        self._wiring = wiring
        self._send = send
        self._tell = tell
        self._key = key
        self._domain = domain
        self._heard: dict[frozenset[Place], float] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._wiring.discovers:
            now = asyncio.get_running_loop().time()
            self._heard = {frozenset(link.ends): now for link in self._wiring.topology.links}
            self._task = asyncio.create_task(self._run(), name="beacons")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        with suppress(asyncio.CancelledError):
            while True:
                self._send(self._make)
                await asyncio.sleep(EVERY)
                self._review()

    def _make(self, datapath: int, port: int) -> bytes:
        return Beacon(datapath, port, self._domain).pack(self._key)

    def hear(self, place: Place, frame: bytes) -> bool:
        """Take a frame that came in at a place; False if it is no beacon."""
        read = Beacon.unpack(frame, self._key)
        if read is None:
            return False
        beacon, is_ours = read
        if not self._wiring.discovers:
            return True
        if not is_ours:
            if beacon.domain != self._domain and self._wiring.borders.get(place) != beacon.domain:
                self._wiring.borders[place] = beacon.domain
                self._tell()
            return True
        sender = self._wiring.switch(beacon.datapath)
        if sender is not None:
            other = sender, Port(beacon.port)
            self._heard[frozenset((place, other))] = asyncio.get_running_loop().time()
            if self._wiring.joined(place, other) or place in self.unheard:
                self._review()
                self._tell()
        return True

    def _review(self) -> None:
        """Which links are heard of at present."""
        since = asyncio.get_running_loop().time() - UNHEARD
        links = (frozenset(link.ends) for link in self._wiring.topology.links)
        unheard = frozenset(place for link in links if self._heard.get(link, since) <= since for place in link)
        if unheard != self.unheard:
            self.unheard = unheard
            self._tell()
