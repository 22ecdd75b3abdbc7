"""The connection of one switch: what can be asked of the switch, and what the switch says unasked.

Rules change in atomic, ordered bundles; a change is done when the switch says that the bundle is committed. Each way
in which that fails has its own error: refused (no change is in force), silent or gone (it is unknown which changes are
in force, and the tables have to be read). No message of a switch raises an error out of here: a message that cannot be
read ends the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

from pleroma.errors import SwitchError, SwitchFenced, SwitchGone, SwitchRefused, SwitchSilent
from pleroma.switches.openflow import messages, replies
from pleroma.switches.openflow.bundle import Bundle
from pleroma.switches.openflow.flow_stats import FoundEntry, flow_entries, found_entries
from pleroma.switches.openflow.heartbeat import Heartbeat
from pleroma.switches.openflow.message_channel import HIGH_WATER_BYTES, MessageChannel
from pleroma.switches.openflow.messages import PacketIn, PortInfo
from pleroma.switches.openflow.replies import PortTraffic, Role
from pleroma.switches.openflow.requests import PendingRequests, refused
from pleroma.switches.openflow.rule import CONTROLLER_PORT, CountedRule, RuleChange

ANSWER_SECONDS = 10.0
MAX_EARLY_PORT_CHANGES = 10_000
"""Port changes that a switch may report before it has listed its ports."""


def _ignore(*_: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class ConnectionEvents:
    """Who is told what a switch says unasked. Each callback gets the connection first, and must not wait.

    `on_refusal` gets the errors that belong to no request that anybody waits for, such as those about packets sent out.
    `on_fenced` is told that the switch, which was claimed, obeys another controller; the connection is closed then.
    """

    on_packet_in: Callable[[Connection, PacketIn], None] = _ignore
    on_port_status: Callable[[Connection, PortInfo, str], None] = _ignore
    on_refusal: Callable[[Connection, SwitchRefused], None] = _ignore
    on_closed: Callable[[Connection, str], None] = _ignore
    on_fenced: Callable[[Connection, SwitchFenced], None] = _ignore


NO_EVENTS = ConnectionEvents()


class Connection:
    """One connection of a switch, made by a `SwitchListener`.

    After `idle` seconds of silence the switch is asked for a sign of life; after `dead` seconds without one the
    connection is closed.
    """

    def __init__(
        self,
        events: ConnectionEvents = NO_EVENTS,
        *,
        idle: float = 2.0,
        dead: float = 6.0,
    ) -> None:
        self.datapath = 0
        self.tables = 0
        self.ports: dict[int, PortInfo] = {}
        self.packets_left_out = 0
        self._events = events
        self.channel = MessageChannel(self._opened, self._received, self._ended)
        self._requests = PendingRequests(self.channel.send)
        self._heartbeat = Heartbeat(idle, dead, self._ask_for_life, partial(self.channel.end, abort=True))
        self._agreed = asyncio.Event()
        self._awaited_signs: set[asyncio.Event] = set()
        """Of those who wait for any sign of life."""
        self._bundle: Bundle | None = None
        self._bundles = 0
        self._one_at_a_time = asyncio.Lock()
        self._early: list[tuple[PortInfo, str]] | None = []
        self._claimed = False
        self._fenced: SwitchFenced | None = None

    def __repr__(self) -> str:
        return f"<Connection {self.datapath:016x} at {self.peer}>"

    @property
    def peer(self) -> str:
        return self.channel.peer

    @property
    def version(self) -> int:
        """The version as the wire has it: 4 for OpenFlow 1.3, 5 for 1.4, 0 before one is agreed on."""
        return self._requests.version

    @property
    def closed(self) -> str | None:
        """The reason why the connection is closed, once it is."""
        return self.channel.ended

    def close(self, reason: str = "closed by the controller") -> None:
        self.channel.end(reason)

    async def shake_hands(self, timeout: float = ANSWER_SECONDS) -> None:
        """Agree on a version, then learn who the switch is and which ports it has."""
        async with self._within(timeout, "handshake"):
            await self._agreed.wait()
            who = partial(messages.plain_request, messages.FEATURES_REQUEST)
            features = await self._requests.answer(self._requests.ask(who, messages.FEATURES_REPLY, replies.features))
            if features.auxiliary:
                self.close("an auxiliary connection; only main connections are taken")
            self.datapath, self.tables = features.datapath, features.tables
            read = partial(replies.ports, self.version)
            asked = self._requests.ask_for_parts(messages.port_request, messages.PORT_DESCRIPTIONS, read)
            self.ports = {port.number: port for ports in await self._requests.answer(asked) for port in ports}
            early, self._early = self._early or [], None
            for port, reason in early:
                self._set_port(port, reason)

    async def claim(self, generation: int, timeout: float = ANSWER_SECONDS) -> None:
        """Have the switch obey this controller alone, until another claims it with the same generation or a later one.

        Raises `SwitchFenced` if another has claimed it with a later one. From now on every sign that the switch obeys
        another controller ends the connection, and requests that are under way then raise this error too.
        """
        async with self._within(timeout, "role"):
            self._claimed = True
            request = partial(messages.role_request, generation=generation)
            asked = self._requests.ask(request, messages.ROLE_REPLY, replies.role)
            said: Role = await self._requests.answer(asked)
        if said != (messages.MASTER, generation):
            reason = f"it was claimed with generation {generation}, and says role {said.role} of {said.generation}"
            raise SwitchError(reason, field="role", value=said.role)

    async def shows_life(self, timeout: float) -> bool:
        """Whether the switch says anything within so many seconds; it is asked to."""
        sign = asyncio.Event()
        self._awaited_signs.add(sign)
        self._ask_for_life()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await sign.wait()
        finally:
            self._awaited_signs.discard(sign)
        return sign.is_set() and self.closed is None

    async def commit(self, changes: Sequence[RuleChange], timeout: float = ANSWER_SECONDS) -> None:
        """Make all of these changes, in this order, or none of them."""
        async with self._within(timeout, "bundle"), self._one_at_a_time:
            if self.closed is not None:
                raise self._fenced or SwitchGone(self.closed, field="switch")
            if not changes:
                await self._requests.answer(self._requests.barrier())
                return
            self._bundles = self._bundles % 0xFFFFFFFF + 1
            self._bundle = Bundle(self._bundles, changes, self._requests, self.channel)
            try:
                await self._bundle.commit()
            finally:
                self._bundle = None

    async def wipe(self, cookie: int, cookie_mask: int, timeout: float = ANSWER_SECONDS) -> None:
        """Delete all rules with these bits in their cookies."""
        request = partial(messages.wipe, cookie=cookie, mask=cookie_mask)
        async with self._within(timeout, "deletion"), self._one_at_a_time:
            asked = self._requests.ask(request, messages.ERROR, len)  # a deletion is answered only if it is refused
            try:
                await self._requests.answer(self._requests.barrier())
                if asked.outcome.done():
                    await self._requests.answer(asked)
            finally:
                self._requests.forget(asked)

    async def flows(
        self, cookie: int = 0, cookie_mask: int = 0, table: int | None = None, timeout: float = ANSWER_SECONDS
    ) -> list[CountedRule | None]:
        """The rules with these bits in their cookies; None for each rule that this controller would not write."""
        request = partial(messages.flow_stats_request, cookie=cookie, mask=cookie_mask, table=table)
        async with self._within(timeout, "flow statistics"):
            asked = self._requests.ask_for_parts(request, messages.FLOW_STATS, flow_entries)
            return [entry for part in await self._requests.answer(asked) for entry in part]

    async def entries(self, timeout: float = ANSWER_SECONDS) -> list[FoundEntry]:
        """All rules of all tables, whoever wrote them."""
        request = partial(messages.flow_stats_request, cookie=0, mask=0, table=None)
        async with self._within(timeout, "flow statistics"):
            asked = self._requests.ask_for_parts(request, messages.FLOW_STATS, found_entries)
            return [entry for part in await self._requests.answer(asked) for entry in part]

    async def packets_at(self, port: int, cookie: int, cookie_mask: int, table: int) -> int:
        """How many packets the rules of a table for one port have met, with these bits in their cookies."""
        request = partial(messages.aggregate_request, cookie=cookie, mask=cookie_mask, table=table, in_port=port)
        async with self._within(ANSWER_SECONDS, "aggregate statistics"):
            asked = self._requests.ask_for_parts(request, messages.AGGREGATE_STATS, replies.aggregate_packets)
            return sum(await self._requests.answer(asked))

    async def sent_by_port(self) -> dict[int, PortTraffic]:
        """What each port has sent since the switch has it."""
        read = partial(replies.sent_by_port, self.version)
        async with self._within(ANSWER_SECONDS, "port statistics"):
            asked = self._requests.ask_for_parts(messages.port_stats_request, messages.PORT_STATS, read)
            return {port: sent for part in await self._requests.answer(asked) for port, sent in part.items()}

    async def table_sizes(self, timeout: float = ANSWER_SECONDS) -> dict[int, tuple[int, int | None]]:
        """How many rules each table has, and how many it has room for (None: the switch does not say)."""
        active: dict[int, int] = {}
        room: dict[int, int] = {}
        ask = self._requests.ask_for_parts
        async with self._within(timeout, "table statistics"):
            asked = ask(messages.table_request, messages.TABLE_STATS, replies.active_entries)
            for part in await self._requests.answer(asked):
                active |= part
            asked = ask(messages.table_features_request, messages.TABLE_FEATURES, replies.room)
            with suppress(SwitchRefused):  # by the standard, a switch need not answer this
                for part in await self._requests.answer(asked):
                    room |= part
        return {table: (count, room.get(table)) for table, count in active.items()}

    async def barrier(self, timeout: float = ANSWER_SECONDS) -> None:
        """Wait until the switch has done all that it was sent before."""
        async with self._within(timeout, "barrier"):
            await self._requests.answer(self._requests.barrier())

    def packet_out(self, port: int, data: bytes, in_port: int = CONTROLLER_PORT) -> None:
        """Send a packet out at a port. It is left out when the switch has not read much of what it was sent."""
        if self.channel.waiting > HIGH_WATER_BYTES:
            self.packets_left_out += 1
            return
        self.channel.send(messages.packet_out(self.version, self._requests.number(), port, data, in_port))

    @asynccontextmanager
    async def _within(self, seconds: float, what: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise SwitchSilent(f"no answer to a {what} request in {seconds:g} s", field="switch", value=what) from None

    def _opened(self) -> None:
        self.channel.send(messages.hello(self._requests.number()))
        self._heartbeat.start()

    def _received(self, message: bytes) -> None:
        self._heartbeat.heard()
        for sign in self._awaited_signs:
            sign.set()
        version, kind, _, xid = messages.HEADER.unpack_from(message)
        if not self.version:
            self._negotiate(kind, message)
        elif kind == messages.ERROR:
            self._refused(replies.error_message(message))
        elif kind == messages.HELLO:
            pass
        elif version != self.version:
            raise SwitchError(f"it speaks version {version} after agreeing on {self.version}", field="version")
        elif kind == messages.ECHO_REQUEST:
            self.channel.send(messages.plain(version, messages.ECHO_REPLY, xid, message[8:]))
        elif kind == messages.PACKET_IN:
            self._tell(self._events.on_packet_in, replies.packet_in(message))
        elif kind == messages.PORT_STATUS:
            self._port_changed(*replies.port_status(message))
        elif kind == messages.ROLE_STATUS:
            self._role_changed(replies.role_status(message))
        elif kind == messages.MULTIPART_REPLY:
            self._requests.answered_in_part(xid, replies.part(message))
        elif kind in messages.ANSWERS or (kind == messages.EXPERIMENTER and replies.bundle_reply(message) is not None):
            self._requests.answered(xid, kind, message)

    def _negotiate(self, kind: int, message: bytes) -> None:
        if kind == messages.ERROR:
            raise SwitchError(f"it refused the hello: {replies.error_message(message)}", field="hello")
        if kind != messages.HELLO:
            raise SwitchError(f"it began with a message of type {kind}, not with a hello", field="hello")
        version = replies.agreed_version(message)
        if version is None:
            why = f"OpenFlow 1.3 or 1.4 is needed; the switch offers up to version {message[0]}"
            self.channel.send(messages.hello_failed(message[0], int.from_bytes(message[4:8], "big"), why))
            raise SwitchError(why, field="hello", value=message[0])
        self._requests.version = version
        self._agreed.set()

    def _refused(self, refusal: replies.ErrorMessage) -> None:
        """Find the request by the xid of the error or else by the xid of the message that the error quotes."""
        if self._claimed and refusal.is_fencing:
            self._fence(f"the switch obeys a later controller: {refusal}")
            return
        for xid in (refusal.xid, int.from_bytes(refusal.data[4:8], "big")):
            if xid and self._bundle is not None and xid in self._bundle:
                self._bundle.refuse(xid, refusal)
                return
            if xid and self._requests.refused(xid, refusal):
                return
        if self._bundle is not None and not refusal.xid:
            self._bundle.refuse_as_a_whole(refusal)
        self._tell(self._events.on_refusal, refused(refusal, value=refusal))

    def _role_changed(self, said: Role) -> None:
        if self._claimed and said.role != messages.MASTER:
            self._fence(f"the switch obeys another controller, of generation {said.generation}")

    def _fence(self, reason: str) -> None:
        self._fenced = SwitchFenced(reason, field="switch", value=self.datapath)
        self.close(reason)
        self._tell(self._events.on_fenced, self._fenced)

    def _port_changed(self, port: PortInfo, reason: str) -> None:
        if self._early is not None:  # the list of ports has not come yet, and may be older
            if len(self._early) >= MAX_EARLY_PORT_CHANGES:
                raise SwitchError("too many changes of ports before the list of them", field="port status")
            self._early.append((port, reason))
            return
        self._set_port(port, reason)
        self._tell(self._events.on_port_status, port, reason)

    def _set_port(self, port: PortInfo, reason: str) -> None:
        if reason == "delete":
            self.ports.pop(port.number, None)
        else:
            self.ports[port.number] = port

    def _tell(self, callback: Callable[..., None], *about: object) -> None:
        try:
            callback(self, *about)
        except Exception as error:
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"a callback of {self!r} failed", "exception": error}
            )

    def _ask_for_life(self) -> None:
        if self.version:
            self.channel.send(messages.plain(self.version, messages.ECHO_REQUEST, self._requests.number()))

    def _ended(self, reason: str) -> None:
        self._heartbeat.stop()
        self._requests.end(self._fenced or SwitchGone(reason, field="switch"))
        self._agreed.set()
        for sign in self._awaited_signs:
            sign.set()
        asyncio.get_running_loop().call_soon(lambda: self._tell(self._events.on_closed, reason))
