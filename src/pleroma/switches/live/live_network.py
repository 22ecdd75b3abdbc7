"""The live embedded network: simulated switches between real processes, each host a UDP port on the loopback interface.

A client attaches its socket to a host's port with a secret that the service gave it (`pleroma.wire.attach`). A packet
that the client sends in a tunnel frame takes the path that the flow tables define, and is sent to the sockets that are
attached to the receiving hosts: unchanged, but for the destination, which the last switch rewrote. All of this happens
in the event loop, without simulated latency. No packet raises an error; packets that are dropped are counted.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Self

from pleroma.background import in_background
from pleroma.control.entry_guard import EntryGuard
from pleroma.errors import SetupError, WireError
from pleroma.index.address import IPV6
from pleroma.routing.detour import SwitchOp
from pleroma.routing.flow import FlowTable
from pleroma.routing.topology import Host, HostId, SwitchId, Topology
from pleroma.switches.live.kernel_drops import dropped_at, kernel_drops
from pleroma.switches.live.path_cache import PathCache
from pleroma.switches.simulated.cables import Line
from pleroma.switches.simulated.embedded_network import EmbeddedNetwork
from pleroma.switches.simulated.network_counters import HostCounters, LineCounters, PortCounters, SwitchCounters
from pleroma.switches.simulated.simulated_table import SimulatedTable
from pleroma.switches.tracing.meeting import TracedTables
from pleroma.wire import attach, tunnel
from pleroma.wire.datagram_socket import DatagramSocket, ReceivedDatagram, open_socket
from pleroma.wire.header import MAX_PACKET_BYTES, PUBLISHER_PLACE
from pleroma.wire.socket_sessions import SocketAddress, SocketSession, SocketSessions

LOOPBACK = "127.0.0.1"
SEND_BUFFER_BYTES = 4 << 20
"""Asked for at every host's socket; the system may give less."""
MAX_OPS_AT_ONCE = 500
"""Operations that are carried out before the event loop looks at something else."""
FRAMES_PER_TURN = 64
"""Frames that are read from one host's port before other ports have their turn."""

_LARGEST = tunnel.TUNNEL_HEAD_BYTES + MAX_PACKET_BYTES
_EVENT = tunnel.TUNNEL_START + IPV6.base.network_address.packed[: IPV6.base.prefixlen // 8]
"""How the frame of an event begins; then come the bits of its dz, then the packet."""
_DZ = slice(len(_EVENT), tunnel.TUNNEL_HEAD_BYTES)
_PUBLISHER = slice(tunnel.TUNNEL_HEAD_BYTES + PUBLISHER_PLACE.start, tunnel.TUNNEL_HEAD_BYTES + PUBLISHER_PLACE.stop)


@dataclass(slots=True)
class _Outlet:
    """A host: its socket, the sessions of its clients by principal, and the bytes that frames to it begin with."""

    number: int
    host: Host
    start: bytes
    sessions: SocketSessions[str] = field(default_factory=SocketSessions)
    counters: HostCounters = field(default_factory=HostCounters)
    published_by: Counter[str] = field(default_factory=Counter)
    """Events that were let in, by the principal who sent them."""
    socket: DatagramSocket | None = None


@dataclass(frozen=True, slots=True)
class KernelDrops:
    """Packets that the kernel dropped for full buffers, by host: at the host's port, and at the attached sockets."""

    arriving: Mapping[HostId, int]
    leaving: Mapping[HostId, int]


class LiveNetwork:
    """Open it with `async with`.

    With `loopback`, a packet that one socket of a host sends goes to the other sockets of that host too. No switch does
    that, since it never sends back by the port of arrival, but a real host's network stack does. With `guarded`, a host
    may send only the events that it has advertised. With an `entry` guard, whoever is attached may publish only under
    the numbers of its own advertisements at the host.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        loopback: bool = False,
        guarded: bool = False,
        entry: EntryGuard | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.topology = topology
        self.ports: dict[HostId, int] = {}
        self._loopback = loopback
        self._entry = entry
        self._clock = clock
        self._network = EmbeddedNetwork(topology)
        self._paths = PathCache(self._network, guarded=guarded)
        self._outlets = {h.name: _Outlet(number, h, _frame_start(h)) for number, h in enumerate(topology.hosts)}
        self._installing = asyncio.Lock()
        self._expiry = math.inf  # no session ends before this time

    async def __aenter__(self) -> Self:
        try:
            for outlet in self._outlets.values():
                self._open(outlet)
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all sockets. The tables and the counters stay."""
        for outlet in self._outlets.values():
            if outlet.socket is not None:
                outlet.socket.close()
                outlet.socket = None
        self.ports.clear()

    def _open(self, outlet: _Outlet) -> None:
        try:
            opened = open_socket(socket.AF_INET, lambda opening: opening.bind((LOOPBACK, 0)))
        except OSError as error:
            raise SetupError(f"cannot open a port: {error}", field=outlet.host.name) from None
        with suppress(OSError):
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        self.ports[outlet.host.name] = opened.getsockname()[1]
        outlet.socket = DatagramSocket(opened, partial(self._take_batch, outlet), max_per_wake=FRAMES_PER_TURN)

    async def install(self, ops: Sequence[SwitchOp]) -> None:
        """Change the tables between two packets, those of each switch in one bundle.

        Raises the error of the first switch that refuses its bundle; the other switches have changed nevertheless. Very
        many operations are prepared in another thread, while packets go on by the tables that there are.
        """
        async with self._installing:  # if nobody else installs, nothing comes in between
            if len(ops) > MAX_OPS_AT_ONCE:
                self._paths.exchange(await in_background(self._paths.prepare, ops))
            else:
                self._paths.install(ops)

    @property
    def tables(self) -> Mapping[SwitchId, SimulatedTable]:
        """Only to be read."""
        self._paths.flush_counts()
        return self._network.tables

    def flow_tables(self) -> dict[SwitchId, FlowTable]:
        return self._network.flow_tables()

    def rules(self, switch: SwitchId) -> TracedTables:
        """The rules that a switch has now, with what hosts may send at its ports."""
        table, hosts = self._network.tables[switch], self.topology.hosts_of[switch]
        admitted = {host.port: self._paths.admitted(self._outlets[host.name].number) for host in hosts}
        return TracedTables(table.flows(), FlowTable(table.detours), admitted)

    def admit(
        self,
        host: str,
        secret: bytes,
        seconds: float,
        principal: str = "",
        on_end: Callable[[], None] = lambda: None,
        *,
        token: str | None = None,
    ) -> None:
        """Let a client with this secret attach a socket to a host, for as long as it repeats that every `seconds`.

        `on_end` is called when it no longer does. `token` is the digest of the token that it showed.
        """
        self._expire()
        now = self._clock()
        self._outlet(host).sessions.admit(secret, principal, seconds, now, on_end, token=token)
        self._expiry = min(self._expiry, now + seconds)

    def dismiss(self, is_worthless: Callable[[str], bool]) -> None:
        """End the sessions whose tokens, by their digests, are worth nothing any more."""
        for outlet in self._outlets.values():
            outlet.sessions.dismiss(is_worthless)

    def sessions(self) -> dict[HostId, int]:
        """How many sessions each host has, with a socket or still without."""
        self._expire()
        return {name: len(outlet.sessions) for name, outlet in self._outlets.items()}

    def attached(self, host: str) -> list[SocketAddress]:
        """The sockets that are attached to a host."""
        self._expire()
        return list(self._outlet(host).sessions.sockets)

    def _expire(self) -> None:
        now = self._clock()
        if now >= self._expiry:
            self._expiry = min((x.sessions.expire(now) for x in self._outlets.values()), default=math.inf)

    @property
    def switches(self) -> Mapping[SwitchId, SwitchCounters]:
        self._paths.flush_counts()
        return self._network.counters

    @property
    def hosts(self) -> Mapping[HostId, HostCounters]:
        return {name: outlet.counters for name, outlet in self._outlets.items()}

    def published_by(self, host: HostId) -> Counter[str]:
        """How many events were let in at a host, by the principal who sent them."""
        return self._outlets[host].published_by

    def forget(self, principal: str) -> None:
        """The principal was removed."""
        for outlet in self._outlets.values():
            outlet.published_by.pop(principal, None)

    @property
    def forged(self) -> Mapping[tuple[HostId, str], int]:
        """Events under the number of somebody else's advertisement, by the host they came to and who sent them."""
        return {} if self._entry is None else self._entry.forged

    @property
    def misaddressed(self) -> Mapping[HostId, int]:
        """Packets that came to a host under another address than its own, and that it did not take."""
        self._paths.flush_counts()
        return self._network.misaddressed

    def port(self, switch: str, port: int) -> PortCounters:
        """The counters of one port in use."""
        self._paths.flush_counts()
        return self._network.port(switch, port)

    def by_line(self) -> Mapping[Line, LineCounters]:
        """The counters of every direction of every cable."""
        self._paths.flush_counts()
        return self._network.by_line()

    def kernel_drops(self) -> KernelDrops | None:
        """The packets that the kernel dropped; None where the system does not say."""
        drops = kernel_drops()
        if drops is None:
            return None
        return KernelDrops(
            {name: dropped_at(drops, (LOOPBACK, port)) for name, port in self.ports.items()},
            {name: sum(dropped_at(drops, x) for x in o.sessions.sockets) for name, o in self._outlets.items()},
        )

    def _take_batch(self, outlet: _Outlet, frames: Sequence[ReceivedDatagram]) -> None:
        self._expire()
        for frame, sender in frames:
            self._take(outlet, frame, sender)

    def _take(self, outlet: _Outlet, frame: bytes, sender: SocketAddress) -> None:
        counters = outlet.counters
        if frame[: len(_EVENT)] == _EVENT and tunnel.TUNNEL_HEAD_BYTES < len(frame) <= _LARGEST:
            atom: int | None = int.from_bytes(frame[_DZ])
        elif frame[: len(attach.ATTACH_START)] == attach.ATTACH_START:
            self._control(outlet, frame, sender)
            return
        else:
            try:
                tunnel.unwrap(frame)
            except WireError:
                counters.malformed += 1
                return
            atom = None  # a frame whose destination is no event
        session = outlet.sessions.sockets.get(sender)
        if session is None:
            counters.unattached += 1
            return
        if self._entry is not None and not self._may_enter(self._entry, outlet, frame, session):
            return
        counted = self._paths.find(outlet.number, atom)
        if counted.refused:
            counters.unadvertised += 1
            return
        size = len(frame) - tunnel.TUNNEL_HEAD_BYTES
        counted.packets += 1
        counted.bytes += size
        counters.published += 1
        outlet.published_by[session.owner] += 1
        counters.published_bytes += size
        if counted.path.looped:
            counters.looped += 1
        for receiver in counted.path.receivers:
            self._deliver(self._outlets[receiver.name], frame)
        if self._loopback:
            for other in outlet.sessions.sockets:
                if other != sender:
                    self._send(outlet, frame, other)

    def _may_enter(self, entry: EntryGuard, outlet: _Outlet, frame: bytes, session: SocketSession[str]) -> bool:
        """Whether the sender of a frame may publish under the number that the packet names; if not, it is counted."""
        host = outlet.host.name
        is_own = entry.may_publish(int.from_bytes(frame[_PUBLISHER]), session.owner, host)
        if is_own is None:
            outlet.counters.unadvertised += 1
        elif not is_own:
            outlet.counters.forged += 1
            entry.count(host, session.owner, session.socket)
        return bool(is_own)

    def _deliver(self, outlet: _Outlet, frame: bytes) -> None:
        if not outlet.sessions.sockets:
            outlet.counters.unclaimed += 1
            return
        rewritten = outlet.start + frame[tunnel.TUNNEL_HEAD_BYTES :]
        for target in outlet.sessions.sockets:
            self._send(outlet, rewritten, target)

    def _send(self, outlet: _Outlet, frame: bytes, target: SocketAddress) -> None:
        counters = outlet.counters
        assert outlet.socket is not None  # noqa: S101 (frames come through open sockets)
        if outlet.socket.send(frame, target) is not None:  # full, or gone: a slow reader does not slow others down
            counters.dropped += 1
        else:
            counters.delivered += 1
            counters.delivered_bytes += len(frame) - tunnel.TUNNEL_HEAD_BYTES

    def _control(self, outlet: _Outlet, frame: bytes, sender: SocketAddress) -> None:
        try:
            outcome = outlet.sessions.take(frame, sender, self._clock())
        except WireError:
            outlet.counters.malformed += 1
            return
        if outcome.answer is not None:
            assert outlet.socket is not None  # noqa: S101 (frames come through open sockets)
            outlet.socket.send(outcome.answer, sender)  # a client that hears nothing asks again
        outlet.counters.refused += not outcome.known

    def _outlet(self, host: str) -> _Outlet:
        return self._outlets[self.topology.find_host(host).name]


def _frame_start(host: Host) -> bytes:
    """The bytes that frames to this host begin with; an IPv4 address is mapped to IPv6."""
    address = ipaddress.ip_address(host.address)
    if isinstance(address, ipaddress.IPv4Address):
        address = ipaddress.IPv6Address(f"::ffff:{address}")
    return tunnel.wrap(address, b"packet")[: tunnel.TUNNEL_HEAD_BYTES]
