"""The API for hosts that have no other network: requests come up from the switches, answers go down again.

Whoever proves to have a principal's token gets a session; its requests go to the same application as those over HTTP,
so rights, limits and errors are the same. A host that nobody knows may join this way, where the network learns hosts.
Whatever else arrives is counted, and hardly ever answered (Bhowmik et al. 2017, II: the address that switches pass up).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

import structlog
from starlette.types import ASGIApp

from pleroma.control import Controller
from pleroma.errors import BadRequest, PleromaError, TooLarge, WireError
from pleroma.routing import Port, SwitchId
from pleroma.routing.presence import Place
from pleroma.service.http.asgi_call import TOLD, call
from pleroma.service.http.gate import IN_BAND, InBand
from pleroma.service.http.limits import Buckets
from pleroma.service.http.problems import problem_response
from pleroma.service.inband.host_admission import Joining
from pleroma.service.inband.inband_session import Call, Room, Session
from pleroma.switches.openflow.frames import Datagram
from pleroma.switches.openflow.openflow_network import Arrival
from pleroma.wire.api_call import ApiRequest, ApiResponse
from pleroma.wire.inband_messages import (
    MAX_NAME_BYTES,
    NONCE_BYTES,
    SESSION_BYTES,
    Hello,
    MessageKind,
    MessagePart,
    MessageRefused,
    RefusalReason,
    Welcome,
    is_genuine,
    pack,
    principal_key,
    session_key,
    unpack,
)
from pleroma.wire.parts import MAX_PARTS_IN_FLIGHT, cut, pack_numbers, unpack_numbers
from pleroma.wire.ports import CONTROL_PORT

REPLIES_FROM: dict[int, IPv4Address | IPv6Address] = {4: IPv4Address("169.254.112.108"), 6: IPv6Address("fe80::706c")}
"""A multicast address cannot be where a packet comes from."""
_ETHERNET = "02:00:00:00:00:00"
_STREAM = "/v1/stream"

log = structlog.get_logger("pleroma.service")


@dataclass(frozen=True, slots=True)
class InbandLimits:
    """Of what strangers can make the controller do or keep."""

    datagrams_per_s: float = 1000.0
    """At one port of a switch, on average; as many may come at once."""
    refusals_per_s: float = 5.0
    sessions: int = 1024
    sessions_at_a_place: int = 16
    idle_seconds: float = 300.0
    held: int = 64 * 2**20
    """Bytes of requests and answers, of all sessions together."""
    held_by_a_session: int = 8 * 2**20
    request_parts: int = 1024
    running: int = 64
    answer_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Peer:
    """Where a datagram came from, and so where answers go."""

    place: Place
    ethernet: str
    address: IPv4Address | IPv6Address
    port: int


class InbandServer:
    """Give `arrived` every packet that a switch passes up; `send` puts one out at a port of a switch.

    `joins` tells whether an unknown host may join at a place, and `rewire` is called when one has. `counts` has what
    arrived in vain, by reason.
    """

    def __init__(
        self,
        app: ASGIApp,
        controller: Controller,
        send: Callable[[SwitchId, Port, bytes], bool],
        *,
        joins: Callable[[Place], bool] = lambda _: False,
        rewire: Callable[[], None] = lambda: None,
        limits: InbandLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.sessions: dict[bytes, Session] = {}
        self._app = app
        self._controller = controller
        self._send = send
        self._joining = Joining(controller, joins, rewire)
        self._limits = limits or InbandLimits()
        self._clock = clock
        self._arrivals = Buckets(self._limits.datagrams_per_s, clock)
        self._refusals = Buckets(self._limits.refusals_per_s, clock)
        self._room = Room(self._limits.held, self._limits.held_by_a_session)
        self._running: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Stop what runs; nobody gets an answer any more."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    # -- datagrams -----------------------------------------------------------------------------------------------

    def arrived(self, arrival: Arrival) -> None:
        """A packet came up. Nothing in it can raise an error."""
        place = arrival.switch, arrival.port
        if self._arrivals.take(f"{place[0]} {place[1]}"):
            self.counts["too fast"] += 1
            return
        datagram = Datagram.unpack(arrival.frame)
        if datagram is None or datagram.destination[1] != CONTROL_PORT:
            self.counts["other"] += 1
            return
        address, port = datagram.source
        if address.is_multicast or address.is_unspecified:
            self.counts["other"] += 1
            return
        self.received(Peer(place, datagram.source_mac, address, port), datagram.payload)

    def received(self, peer: Peer, payload: bytes) -> None:
        """A message from somebody."""
        try:
            message = unpack(payload)
        except WireError:
            self.counts["malformed"] += 1
            return
        match message:
            case Hello():
                self._hello(peer, message, payload)
            case MessagePart():
                self._part(peer, message, payload)
            case _:
                self.counts["misplaced"] += 1

    def _reply(self, peer: Peer, data: bytes) -> None:
        source = REPLIES_FROM[peer.address.version], CONTROL_PORT
        frame = Datagram(_ETHERNET, peer.ethernet, source, (peer.address, peer.port), data).pack()
        if not self._send(*peer.place, frame):
            self.counts["unsent"] += 1

    def _hint(self, peer: Peer, about: bytes, reason: RefusalReason) -> None:
        """Say so, but not often: whoever gets it may not be who asked."""
        if not self._refusals.take(f"{peer.place[0]} {peer.place[1]}"):
            self._reply(peer, pack(MessageRefused(about.ljust(NONCE_BYTES, b"\0"), reason)))

    # -- sessions ------------------------------------------------------------------------------------------------

    def _hello(self, peer: Peer, hello: Hello, data: bytes) -> None:
        principal = self._controller.state.principals.get(hello.principal)
        if principal is None:
            self.counts["unknown principal"] += 1
            self._hint(peer, hello.nonce, RefusalReason.NOT_KNOWN)
            return
        key = principal_key(bytes.fromhex(principal.digest))
        if not is_genuine(data, key):
            self.counts["forged"] += 1
            self._hint(peer, hello.nonce, RefusalReason.NOT_KNOWN)
            return
        session = next((each for each in self._at(peer.place) if each.welcome.nonce == hello.nonce), None)
        if session is None:
            session = self._new_session(peer, hello, principal.digest, key)
        self._reply(peer, pack(session.welcome, key))

    def _new_session(self, peer: Peer, hello: Hello, digest: str, key: bytes) -> Session:
        self._make_room(peer.place)
        known = self._joining.at(peer.place)
        name, nonce = secrets.token_bytes(SESSION_BYTES), secrets.token_bytes(NONCE_BYTES)
        welcome = Welcome(hello.nonce, name, nonce, _sendable(known.name) if known else "")
        session = Session(
            principal=hello.principal,
            digest=digest,
            place=peer.place,
            address=str(peer.address),
            wanted=hello.host,
            key=session_key(key, hello.nonce, nonce),
            welcome=welcome,
            room=self._room,
            used=self._clock(),
        )
        self.sessions[name] = session
        return session

    def _at(self, place: Place) -> list[Session]:
        return [session for session in self.sessions.values() if session.place == place]

    def _make_room(self, place: Place) -> None:
        """Forget sessions that nobody uses, and if there are too many, those that were not used for longest."""
        now, limits = self._clock(), self._limits
        for session in list(self.sessions.values()):
            if now - session.used > limits.idle_seconds:
                self._end(session)
        for crowd, most in ((self._at(place), limits.sessions_at_a_place), (self.sessions.values(), limits.sessions)):
            if len(crowd) >= most:
                self._end(min(crowd, key=lambda each: each.used))

    def _end(self, session: Session) -> None:
        del self.sessions[session.welcome.session]
        session.end()

    # -- requests ------------------------------------------------------------------------------------------------

    def _part(self, peer: Peer, part: MessagePart, data: bytes) -> None:
        session = self.sessions.get(part.session)
        if session is None or session.place != peer.place or session.address != str(peer.address):
            self.counts["no session"] += 1
            self._hint(peer, part.session, RefusalReason.NO_SESSION)
        elif not is_genuine(data, session.key):
            self.counts["forged"] += 1
        else:
            session.used = self._clock()
            if part.kind is MessageKind.REQUEST:
                self._request(peer, session, part)
            elif part.kind is MessageKind.LACKS_RESPONSE:
                self._send_again(peer, session, part)
            else:
                self.counts["misplaced"] += 1

    def _request(self, peer: Peer, session: Session, part: MessagePart) -> None:
        call = session.call(part.sequence, part.parts) if part.parts <= self._limits.request_parts else None
        if call is None:
            self.counts["old"] += 1
            return
        if call.answer is not None:
            if part.part == part.parts - 1:  # the client has heard nothing yet
                self._respond(
                    peer, session, part.sequence, call.answer, range(min(MAX_PARTS_IN_FLIGHT, len(call.answer)))
                )
            return
        if call.is_running:
            return
        asks = session.gather(call, part.part, part.body)
        if asks is None:
            self.counts["no room"] += 1
        elif asks:
            lacking = pack_numbers(call.gathering.lacking())
            lacks = MessagePart(MessageKind.LACKS_REQUEST, part.session, part.sequence, 0, 1, lacking)
            self._reply(peer, pack(lacks, session.key))
        elif call.gathering.is_complete:
            if len(self._running) >= self._limits.running:
                self.counts["busy"] += 1
                return
            call.is_running = True
            task = asyncio.get_running_loop().create_task(self._run(peer, session, part.sequence, call))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    def _send_again(self, peer: Peer, session: Session, part: MessagePart) -> None:
        call = session.calls.get(part.sequence)
        if call is None or call.answer is None:
            self.counts["old"] += 1
            return
        self._respond(peer, session, part.sequence, call.answer, unpack_numbers(part.body, call.answer))

    def _respond(
        self, peer: Peer, session: Session, sequence: int, answer: Sequence[bytes], numbers: Iterable[int]
    ) -> None:
        name = session.welcome.session
        for number in numbers:
            part = MessagePart(MessageKind.RESPONSE, name, sequence, number, len(answer), answer[number])
            self._reply(peer, pack(part, session.key))

    async def _run(self, peer: Peer, session: Session, sequence: int, call: Call) -> None:
        answer = cut(await self._answer(peer, session, sequence, call))
        if session.welcome.session in self.sessions:
            session.answered(call, answer)
            self._respond(peer, session, sequence, answer, range(min(MAX_PARTS_IN_FLIGHT, len(answer))))

    async def _answer(self, peer: Peer, session: Session, sequence: int, call: Call) -> bytes:
        try:
            request = ApiRequest.unpack(call.gathering.whole())
            session.settle(min(request.floor, sequence))
            async with asyncio.timeout(self._limits.answer_seconds):
                return _packed(await self._carry_out(peer, session, request))
        except WireError as error:
            return _problem(BadRequest(error.reason, field=error.field, value=error.value))
        except PleromaError as error:
            return _problem(error)
        except Exception as error:  # the application has said so in the log; the client is to know too
            log.error("an in-band request failed", kind=type(error).__name__, reason=str(error))
            return ApiResponse(500).pack()

    async def _carry_out(self, peer: Peer, session: Session, request: ApiRequest) -> ApiResponse:
        if request.path.partition("?")[0] == _STREAM:
            raise BadRequest("a stream does not fit into packets: ask now and then", field="path", value=request.path)
        host = await self._joining.host(peer.place, peer.address, peer.ethernet, session.wanted)
        known = InBand(session.principal, session.digest, host)
        return await call(self._app, request, (str(peer.address), peer.port), **{IN_BAND: known})


def _sendable(name: str) -> str:
    """A name that a welcome has room for."""
    return name if len(name.encode(errors="replace")) <= MAX_NAME_BYTES else ""


def _packed(response: ApiResponse) -> bytes:
    try:
        return response.pack()
    except WireError as error:
        raise TooLarge(f"the answer is too large to send: {error.reason}", field="answer", value=None) from None


def _problem(error: PleromaError) -> bytes:
    made = problem_response(error)
    told = tuple((name, value) for name, value in made.headers.items() if name in TOLD)
    return ApiResponse(made.status_code, told, bytes(made.body)).pack()
