"""Discovers links: every second a beacon leaves every port, and there is a link to the port where it arrives.

A link over which no beacon came for a while, in either direction, counts as down, even if its ports are up. A host
cannot make a link: it cannot sign a beacon, one that it recorded is soon worth nothing, and the port of a known host is
not taken for the end of a new link.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Set
from contextlib import suppress

import structlog

from pleroma.routing import Link, Port, SwitchId
from pleroma.routing.presence import Place
from pleroma.switches.openflow.discovered_topology import DiscoveredTopology
from pleroma.switches.openflow.frames import LLDP_TYPE, Beacon

log = structlog.get_logger("pleroma.openflow")

BEACON_SECONDS = 1.0
UNHEARD_SECONDS = 3.5 * BEACON_SECONDS
GOOD_ROUNDS = 2
"""A beacon counts in the round that it was sent in, and in so many more."""
MAX_BEACONS_AT_A_PORT = 20
"""Of a round. To read one takes a while, and a host can send as many as it likes."""
MAX_DOMAIN_CHARACTERS = 64

Sender = Callable[[Callable[[int, int], bytes]], None]
"""Sends a frame out at each port of each switch; is given what makes the frame of a datapath and a port."""


class Beacons:
    """`on_change` is called when a link was found or lost, or is heard of again. A fixed topology sends no beacons."""

    def __init__(
        self,
        discovered: DiscoveredTopology,
        send: Sender,
        is_connected: Callable[[SwitchId], bool],
        on_change: Callable[[], None],
        key: bytes,
        domain: str,
        has_host: Callable[[Place], bool] = lambda _: False,
    ) -> None:
        """`has_host` tells whether a host is known at a place."""
        self.unheard: frozenset[Place] = frozenset()
        """The ends of links over which no beacon came lately."""
        self.counts: Counter[str] = Counter()
        """Beacons that were passed over, by reason."""
        self._has_host = has_host
        self._round = 0
        self._read_in_round: Counter[Place] = Counter()
        self._discovered = discovered
        self._send = send
        self._is_connected = is_connected
        self._on_change = on_change
        self._key = key
        self._domain = domain
        self._heard: dict[tuple[Place, Place], float] = {}
        """When a beacon last came from the first place to the second."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._discovered.discovers:
            self._task = asyncio.create_task(self._run(), name="beacons")

    def resume(self, down: Set[Place]) -> None:
        """Begin with the links as unheard that an earlier run found down at both ends."""
        if not self._discovered.discovers:
            return
        links = (link for link in self._discovered.topology.links if set(link.ends) <= down)
        self.unheard = frozenset(place for link in links for place in link.ends)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        with suppress(asyncio.CancelledError):
            while True:
                self._next_round()
                self._send(self._make)
                await asyncio.sleep(BEACON_SECONDS)
                self._review()

    def _next_round(self) -> None:
        self._round += 1
        self._read_in_round.clear()

    def _make(self, datapath: int, port: int) -> bytes:
        return Beacon(datapath, port, self._domain, self._round).pack(self._key)

    def hear(self, place: Place, frame: bytes) -> bool:
        """Read a frame that arrived at a place; False if it is no beacon."""
        if frame[12:14] != LLDP_TYPE:
            return False
        self._read_in_round[place] += 1
        if self._read_in_round[place] > MAX_BEACONS_AT_A_PORT:
            self.counts["too many"] += 1
            return True
        read = Beacon.unpack(frame, self._key)
        if read is None:
            return False
        beacon, is_ours = read
        if not self._discovered.discovers:
            return True
        if is_ours:
            self._hear_own(place, beacon)
        else:
            self._hear_stranger(place, beacon)
        return True

    def _hear_stranger(self, place: Place, beacon: Beacon) -> None:
        """A beacon of another domain marks a border. Anybody can send one, at a port of its own."""
        if beacon.domain == self._domain or len(beacon.domain) > MAX_DOMAIN_CHARACTERS:
            self.counts["forged"] += 1
            return
        is_new = place not in self._discovered.borders
        self._discovered.borders[place] = beacon.domain
        if is_new:
            self._on_change()

    def _hear_own(self, place: Place, beacon: Beacon) -> None:
        sender = self._discovered.switch_of(beacon.datapath)
        if sender is None or sender == place[0]:  # a host sends the beacons of its switch back
            return
        if not 0 <= self._round - beacon.round <= GOOD_ROUNDS:
            self.counts["old"] += 1
            return
        other = sender, Port(beacon.port)
        if not self._discovered.is_linked(place, other) and (self._has_host(place) or self._has_host(other)):
            if not self.counts["at a host"]:
                log.warning("a beacon came by the port of a host", switch=place[0], port=place[1], sent_at=other)
            self.counts["at a host"] += 1
            return
        now = asyncio.get_running_loop().time()
        self._heard[other, place] = now
        is_new = self._discovered.joined(place, other)
        if is_new:
            self._heard[place, other] = now  # the other direction has time to be heard
        if is_new or place in self.unheard:
            self._review()
            self._on_change()

    def _review(self) -> None:
        """Update which links are unheard. While an end is not connected, nothing is learned of a link."""
        now = asyncio.get_running_loop().time()
        silent = [link for link in self._discovered.topology.links if self._is_silent(link, now)]
        unheard = frozenset(place for link in silent for place in link.ends)
        if unheard != self.unheard:
            self.unheard = unheard
            self._on_change()

    def _is_silent(self, link: Link, now: float) -> bool:
        ways = _directions(link)
        if self.unheard.issuperset(link.ends):
            return any(self._heard.get(way, -math.inf) <= now - UNHEARD_SECONDS for way in ways)
        if not all(self._is_connected(switch) for switch, _ in link.ends):
            self._heard.update(dict.fromkeys(ways, now))  # it has time to be heard when they are back
        return any(self._heard.setdefault(way, now) <= now - UNHEARD_SECONDS for way in ways)


def _directions(link: Link) -> tuple[tuple[Place, Place], tuple[Place, Place]]:
    one, other = link.ends
    return (one, other), (other, one)
