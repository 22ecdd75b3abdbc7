"""A lab to measure in: switches with given rules, and sockets at the hosts that time events."""

from __future__ import annotations

import asyncio
import logging
import selectors
import socket
import time
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import NamedTuple, Self

import structlog

from pleroma.index.address import IPV6, AddressRange
from pleroma.index.dz import Dz
from pleroma.lab.lab import Lab
from pleroma.lab.veth_links import HOST_INTERFACE
from pleroma.routing import HostId, SwitchOp, Topology
from pleroma.switches.openflow.agent import SwitchTimeouts
from pleroma.switches.openflow.discovered_topology import DiscoveredTopology
from pleroma.switches.openflow.openflow_network import OpenFlowNetwork
from pleroma.wire.ports import EVENTS_PORT

UNDISTURBED = SwitchTimeouts(answer=60, audit=3600, grace=60, dead=60)
"""Timeouts for measuring: nothing is expected to fail, and audits would show in the figures."""
LOST_SECONDS = 2.0
"""Seconds after which an event counts as lost."""
_BUFFER = 16 << 20
_SO_RCVBUFFORCE = 33  # which the socket module does not name


class HostSockets:
    """At every host of a lab, one socket that sends and one that receives. Use with `with`."""

    def __init__(self, lab: Lab, addresses: AddressRange = IPV6) -> None:
        self._addresses = addresses
        self._selector = selectors.DefaultSelector()
        self._senders: dict[str, socket.socket] = {}
        self._number = 0
        for host in lab.topology.hosts:
            with lab.inside(host.name):
                sender = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
                receiver = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
                card = socket.if_nametoindex(HOST_INTERFACE)
            sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, card)
            receiver.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
            receiver.bind((host.address, EVENTS_PORT))
            receiver.setblocking(False)
            self._senders[host.name] = sender
            self._selector.register(receiver, selectors.EVENT_READ, host.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for key in list(self._selector.get_map().values()):
            self._receiver(key).close()
        self._selector.close()
        for sender in self._senders.values():
            sender.close()

    def send(self, host: str, dz: Dz, payload: bytes) -> None:
        self._senders[host].sendto(payload, (str(self._addresses.address(dz)), EVENTS_PORT))

    def arrivals(self, seconds: float) -> list[tuple[HostId, bytes, float]]:
        """The packets that have come, with host and time; waits `seconds` for the first."""
        found = []
        for key, _ in self._selector.select(seconds):
            receiver, when = self._receiver(key), time.perf_counter()
            while True:
                try:
                    found.append((key.data, receiver.recv(2000), when))
                except BlockingIOError:
                    break
        return found

    def flight(self, host: str, dz: Dz, receivers: Collection[str]) -> dict[HostId, float]:
        """Send an event and wait for it at these hosts. Returns the seconds until it was read, where it came."""
        self._number += 1
        payload = self._number.to_bytes(64, "big")
        missing, found = set(receivers), {}
        begun = time.perf_counter()
        self.send(host, dz, payload)
        while missing and time.perf_counter() < begun + LOST_SECONDS:
            for there, data, when in self.arrivals(LOST_SECONDS):
                if data == payload and there in missing:
                    missing.remove(there)
                    found[there] = when - begun
        return found

    @staticmethod
    def _receiver(key: selectors.SelectorKey) -> socket.socket:
        assert isinstance(key.fileobj, socket.socket)  # noqa: S101 (for the types)
        return key.fileobj


class Rig(NamedTuple):
    lab: Lab
    network: OpenFlowNetwork


@asynccontextmanager
async def rig(topology: Topology, ops: Iterable[SwitchOp]) -> AsyncIterator[Rig]:
    """A lab whose switches have confirmed these operations."""
    with quietly():
        async with _rig(topology, ops) as made:
            yield made


@contextmanager
def quietly() -> Iterator[None]:
    """Log no warnings meanwhile: that switches come and go is expected here."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    try:
        yield
    finally:
        structlog.configure(**before)


@asynccontextmanager
async def _rig(topology: Topology, ops: Iterable[SwitchOp]) -> AsyncIterator[Rig]:
    async with OpenFlowNetwork(DiscoveredTopology(topology), listen=("127.0.0.1", 0), timeouts=UNDISTURBED) as network:
        target = f"tcp:127.0.0.1:{network.address[1]}"
        lab = await asyncio.to_thread(Lab.up, topology, controller=target)
        try:
            await network.install(list(ops))
            yield Rig(lab, network)
        finally:
            await asyncio.to_thread(lab.close)
