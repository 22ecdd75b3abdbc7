"""A scripted switch: real bytes, written with os-ken's classes, and as much misbehaviour as a test asks for."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from pleroma.switches.openflow.connection import NO_EVENTS, Connection, ConnectionEvents
from pleroma.switches.openflow.listener import SwitchListener
from support.openflow_wire import PROTOCOLS, serialised

HEADER = struct.Struct("!BBHI")
Frame = tuple[int, int, bytes]
PATIENCE = 30.0
CHANGES = (4, 13, 14, 33, 34)
"""What a switch takes only from the controller that it obeys: packets to send out, rules and bundles."""


class ScriptedSwitch:
    """`silent` lists the types of messages that it does not answer; `refuse` maps the place of a message in a bundle to
    an error (type, code), which it gives when the message is added, or with `at_commit` when the bundle is committed.
    It has roles: see `obey_another`.
    """

    def __init__(self, version: int = 5, datapath: int = 7) -> None:
        self.version = version
        self.datapath = datapath
        self.silent: set[int] = set()
        self.refuse: dict[int, tuple[int, int]] = {}
        self.at_commit = False
        self.error_xid: Callable[[int], int] = lambda xid: xid
        self.flow_parts: list[bytes] = [b""]
        self.packets = 0
        """That its rules have met, as it says."""
        self.sent: dict[int, tuple[int, int]] = {}
        """By port: packets and bytes that it has sent, as it says."""
        self.ports = [(1, "eth1", 0, 0), (2, "eth2", 0, 1), (3, "eth3", 1, 0)]
        self.seen: list[Frame] = []
        self.committed: list[bytes] = []
        self.staged: dict[int, list[tuple[int, bytes]]] = {}
        self.closed = asyncio.Event()
        self.error_version = version
        self.generation: int | None = None
        """The latest with which a controller has claimed it."""
        self.is_claimed = self.obeys_another = False
        self._adds = 0
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def parser(self) -> Any:
        return PROTOCOLS[self.version].ofproto_parser

    async def connect(
        self, address: tuple[str, int], greeting: bytes | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        reader, self._writer = await asyncio.open_connection(*address, ssl=tls)
        self.write(hello(self.version) if greeting is None else greeting)
        self._task = asyncio.create_task(self._run(reader))

    async def disconnect(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._writer is not None:
            self._writer.close()
            await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)

    def write(self, data: bytes) -> None:
        assert self._writer is not None
        if not self._writer.is_closing():
            self._writer.write(data)

    def obey_another(self, generation: int, *, says_so: bool) -> None:
        """Another controller claims it. A switch that speaks OpenFlow 1.4 says so; one that speaks 1.3 does not."""
        self.generation, self.obeys_another = generation, True
        if says_so:
            self.write(plain(self.version, 30, 0, struct.pack("!IB3xQ", 3, 0, generation)))

    def half_close(self) -> None:
        assert self._writer is not None
        self._writer.write_eof()

    def say(self, message: Any, xid: int = 0) -> None:
        self.write(serialised(message, xid))

    async def saw(self, kind: int, count: int = 1) -> list[Frame]:
        async with asyncio.timeout(PATIENCE):
            while len(found := [frame for frame in self.seen if frame[0] == kind]) < count:
                await asyncio.sleep(0.005)
        return found

    async def _run(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                head = await reader.readexactly(8)
                _, kind, length, xid = HEADER.unpack(head)
                body = await reader.readexactly(length - 8)
                self.seen.append((kind, xid, body))
                if kind not in self.silent:
                    self._answer(kind, xid, body)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.closed.set()

    def _claim(self, xid: int, role: int, generation: int) -> None:
        assert role == 2
        if self.generation is not None and generation < self.generation:
            self.refuse_now(xid, 11, 0)
            return
        self.generation, self.is_claimed, self.obeys_another = generation, True, False
        self.write(plain(self.version, 25, xid, struct.pack("!I4xQ", role, generation)))

    def _answer(self, kind: int, xid: int, body: bytes) -> None:
        dp = PROTOCOLS[self.version]
        if kind in CHANGES and self.obeys_another:
            self.refuse_now(xid, 1, 10)
        elif kind == 24:
            self._claim(xid, *struct.unpack("!I4xQ", body))
        elif kind == 2:
            self.say(self.parser.OFPEchoReply(dp, body), xid)
        elif kind == 5:
            self.write(plain(self.version, 6, xid, struct.pack("!QIBB2xII", self.datapath, 0, 254, 0, 0, 0)))
        elif kind == 18:
            self._answer_parts(struct.unpack_from("!H", body)[0], xid)
        elif kind == 20:
            self.write(plain(self.version, 21, xid))
        elif kind == 33:
            self._control(xid, *struct.unpack("!IHH", body))
        elif kind == 34:
            self._add(xid, body)
        elif kind == 4:
            experimenter, kind = struct.unpack_from("!II", body)
            assert experimenter == 0x4F4E4600
            if kind == 2300:
                self._control(xid, *struct.unpack("!IHH", body[8:]))
            else:
                self._add(xid, body[8:])

    def _answer_parts(self, kind: int, xid: int) -> None:
        met = struct.pack("!QQI4x", self.packets, 0, 1)
        ports = [port_statistics(self.version, port, *sent) for port, sent in self.sent.items()] or [b""]
        bodies = {1: self.flow_parts, 2: [met], 4: ports, 13: [b"".join(self.port(*port) for port in self.ports)]}.get(
            kind, [b""]
        )
        for place, body in enumerate(bodies):
            more = place + 1 < len(bodies)
            self.write(plain(self.version, 19, xid, struct.pack("!HH4x", kind, more) + body))

    def port(self, number: int, name: str, config: int, state: int) -> bytes:
        mac = bytes([2, 0, 0, 0, 0, number & 0xFF])
        if self.version == 4:
            return struct.pack("!I4x6s2x16sII24x", number, mac, name.encode(), config, state)
        return struct.pack("!IHxx6s2x16sII", number, 72, mac, name.encode(), config, state) + struct.pack(
            "!HH28x", 0, 32
        )

    def port_status(self, reason: int, *port: Any) -> None:
        self.write(plain(self.version, 12, 0, struct.pack("!B7x", reason) + self.port(*port)))

    def refuse_now(self, xid: int, kind: int, code: int, data: bytes = b"") -> None:
        self.write(plain(self.error_version, 1, self.error_xid(xid), struct.pack("!HH", kind, code) + data))

    def _control(self, xid: int, bundle: int, action: int, flags: int) -> None:
        assert flags == 3
        if action == 0:
            self._adds = 0
            self.staged[bundle] = []
        elif action == 4:
            messages = self.staged.pop(bundle, [])
            if self.at_commit and self.refuse:
                for place, error in self.refuse.items():
                    self.refuse_now(messages[place][0], *error, data=messages[place][1][:64])
                self.refuse_now(xid, 17, 14)
                return
            self.committed += [message for _, message in messages]
        else:
            self.staged.pop(bundle, None)
        body = struct.pack("!IHH", bundle, action + 1, flags)
        if self.version == 4:
            self.write(plain(4, 4, xid, struct.pack("!II", 0x4F4E4600, 2300) + body))
        else:
            self.write(plain(5, 33, xid, body))

    def _add(self, xid: int, body: bytes) -> None:
        bundle, flags = struct.unpack_from("!IxxH", body)
        inner = body[8:]
        assert flags == 3
        assert HEADER.unpack_from(inner)[3] == xid, "both messages must have the same number"
        place, self._adds = self._adds, self._adds + 1
        if place in self.refuse and not self.at_commit:
            self.staged.pop(bundle, None)  # and opens it anew with the next message, as Open vSwitch does
            self.refuse_now(xid, *self.refuse[place], data=inner[:64])
            return
        self.staged.setdefault(bundle, []).append((xid, inner))


def port_statistics(version: int, port: int, packets: int, size: int) -> bytes:
    """What a switch says that one of its ports has sent."""
    traffic = struct.pack("!QQQQ", 0, packets, 0, size)
    if version == 4:
        return struct.pack("!I4x", port) + traffic + bytes(72)
    return struct.pack("!HxxI8x", 80, port) + traffic + bytes(32)


def plain(version: int, kind: int, xid: int, body: bytes = b"") -> bytes:
    return HEADER.pack(version, kind, 8 + len(body), xid) + body


def hello(version: int, *bitmap: int) -> bytes:
    element = struct.pack("!HHI", 1, 8, sum(1 << each for each in bitmap)) if bitmap else b""
    return plain(version, 0, 1, element)


@asynccontextmanager
async def meeting(
    *switches: ScriptedSwitch, events: ConnectionEvents = NO_EVENTS, idle: float = 60.0, dead: float = 60.0
) -> AsyncIterator[tuple[SwitchListener, list[Connection]]]:
    """A listener, and a connection for each of these switches in their order."""
    greeted: asyncio.Queue[Connection] = asyncio.Queue()
    async with SwitchListener(
        ("127.0.0.1", 0), None, greeted.put, events, idle=idle, dead=dead, handshake=PATIENCE
    ) as listener:
        try:
            connections = []
            for switch in switches:
                await switch.connect(listener.address)
                connections.append(await asyncio.wait_for(greeted.get(), PATIENCE))
            yield listener, connections
        finally:
            for switch in switches:
                await switch.disconnect()
