"""The API for hosts that have no other network: requests come up from the switches, answers go down again.

Whoever proves to have a principal's token gets a session; its requests go to the same application as those over HTTP,
so rights, limits and errors are the same. A host that nobody knows may join this way, where the network learns hosts.
Whatever else arrives is counted, and hardly ever answered (Bhowmik et al. 2017, II: the address that switches pass up).
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Generic

import structlog
from prometheus_client.core import Metric
from starlette.types import ASGIApp

from pleroma.control import Controller
from pleroma.errors import BadRequest, PleromaError, TooLarge, WireError
from pleroma.routing.presence import Place
from pleroma.service.http.asgi_call import call_app
from pleroma.service.http.gate import IN_BAND_SCOPE, InBandCaller
from pleroma.service.http.limits import Buckets
from pleroma.service.http.problems import problem_response
from pleroma.service.inband.carrier import Arrival_contra, InbandAdmission, InbandCarrier, Peer
from pleroma.service.inband.hello_cookies import HelloCookies
from pleroma.service.inband.inband_limits import InbandLimits
from pleroma.service.inband.inband_session import InbandSession, SessionRequest
from pleroma.service.inband.session_table import SessionTable
from pleroma.service.metric_families import counter
from pleroma.wire.api_call import ApiRequest, ApiResponse
from pleroma.wire.api_terms import ANSWER_HEADERS
from pleroma.wire.inband_messages import (
    NONCE_BYTES,
    Challenge,
    Hello,
    MessageKind,
    MessagePart,
    MessageRefused,
    RefusalReason,
    hello_key,
    is_genuine,
    pack,
    unpack,
)
from pleroma.wire.parts import MAX_PARTS_IN_FLIGHT, cut, pack_numbers, unpack_numbers

_STREAM = "/v1/stream"

log = structlog.get_logger("pleroma.service")


class InbandServer(Generic[Arrival_contra]):
    """Answers requests that a network carries. Give `arrived` everything that the network delivers to the controller.

    `carrier` reads arrivals and sends answers, and `admission` tells which host a request comes from. `counts` has how
    many datagrams arrived in vain, by reason.
    """

    def __init__(
        self,
        app: ASGIApp,
        controller: Controller,
        carrier: InbandCarrier[Arrival_contra],
        admission: InbandAdmission,
        *,
        limits: InbandLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits or InbandLimits()
        self.counts: Counter[str] = Counter()
        self.sessions = SessionTable(self._limits, clock)
        self._app = app
        self._controller = controller
        self._carrier = carrier
        self._admission = admission
        self._cookies = HelloCookies(clock)
        self._arrivals = Buckets(self._limits.datagrams_per_s, clock)
        self._origins = Buckets(self._limits.address_datagrams_per_s, clock)
        self._refusals = Buckets(self._limits.refusals_per_s, clock)
        self._running: set[asyncio.Task[None]] = set()
        self._running_of: Counter[str] = Counter()
        """Requests that run, by principal."""

    async def close(self) -> None:
        """Stop the requests that run; nobody gets an answer any more."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def metrics(self) -> Iterator[Metric]:
        in_vain = self.counts.items()
        yield counter("pleroma_in_band_packets", "In-band packets that were not answered, by reason", in_vain, "reason")

    def arrived(self, arrival: Arrival_contra) -> None:
        """Take what the network delivered. Nothing in it can raise an error."""
        carrier = self._carrier
        if self._origins.take(carrier.origin(arrival)) or self._arrivals.take(_bucket(carrier.place(arrival))):
            self.counts["too fast"] += 1
            return
        read = carrier.read(arrival)
        if read is None:
            self.counts["other"] += 1
            return
        peer, payload = read
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
        if not self._carrier.send(peer, data):
            self.counts["unsent"] += 1

    def _refuse(self, peer: Peer, about: bytes, reason: RefusalReason) -> None:
        """Send a refusal, but not often: the peer may have sent under the address of another."""
        if not self._refusals.take(_bucket(peer.place)):
            self._reply(peer, pack(MessageRefused(about.ljust(NONCE_BYTES, b"\0"), reason)))

    def _hello(self, peer: Peer, hello: Hello, data: bytes) -> None:
        """Answer a hello with a session, or with a cookie, of which nothing is remembered."""
        if not self._cookies.is_good(peer, hello):
            self._reply(peer, pack(Challenge(hello.nonce, self._cookies.made_for(peer, hello.nonce))))
            return
        principal = self._controller.principals.get(hello.principal)
        if principal is None:
            self.counts["unknown principal"] += 1
            self._refuse(peer, hello.nonce, RefusalReason.NOT_KNOWN)
            return
        # one that has ended may say hello: its requests are refused, and the refusals say why
        proven = ((each.digest, hello_key(data, bytes.fromhex(each.digest))) for each in principal.tokens)
        digest, key = next(((digest, key) for digest, key in proven if key is not None), ("", None))
        if key is None:
            self.counts["forged"] += 1
            self._refuse(peer, hello.nonce, RefusalReason.NOT_KNOWN)
            return
        session = self.sessions.open(peer, hello, digest, key, self._admission.host_at(peer.place))
        if session is None:
            self.counts["no room"] += 1
            return
        self._reply(peer, pack(session.welcome, session.key))

    def _part(self, peer: Peer, part: MessagePart, data: bytes) -> None:
        session = self.sessions.find(part.session, peer)
        if session is None:
            self.counts["no session"] += 1
            self._refuse(peer, part.session, RefusalReason.NO_SESSION)
        elif not is_genuine(data, session.key):
            self.counts["forged"] += 1
        else:
            self.sessions.touch(session)
            if part.kind is MessageKind.REQUEST:
                self._request(peer, session, part)
            elif part.kind is MessageKind.LACKS_RESPONSE:
                self._send_again(peer, session, part)
            else:
                self.counts["misplaced"] += 1

    def _request(self, peer: Peer, session: InbandSession, part: MessagePart) -> None:
        is_small = part.parts <= self._limits.max_request_parts
        request = session.request(part.sequence, part.parts) if is_small else None
        if request is None:
            self.counts["old"] += 1
        elif request.answer is not None:
            if part.part == part.parts - 1:  # the client has heard nothing yet
                self._respond(peer, session, part.sequence, request, range(MAX_PARTS_IN_FLIGHT))
        elif not request.is_running:
            self._gather(peer, session, part, request)

    def _gather(self, peer: Peer, session: InbandSession, part: MessagePart, request: SessionRequest) -> None:
        asks = session.gather(request, part.part, part.body)
        if asks is None:
            self.counts["no room"] += 1
        elif asks:
            lacking = pack_numbers(request.gathering.lacking())
            lacks = MessagePart(MessageKind.LACKS_REQUEST, part.session, part.sequence, 0, 1, lacking)
            self._reply(peer, pack(lacks, session.key))
        elif request.gathering.is_complete:
            self._start(peer, session, part.sequence, request)

    def _start(self, peer: Peer, session: InbandSession, sequence: int, request: SessionRequest) -> None:
        """Carry out a request that is whole, unless too many are; the client sends its last part again soon."""
        limits, principal = self._limits, session.principal
        is_busy = len(self._running) >= limits.max_running
        if is_busy or self._running_of[principal] >= limits.max_running_of_a_principal:
            self.counts["busy"] += 1
            return
        request.is_running = True
        self._running_of[principal] += 1
        task = asyncio.get_running_loop().create_task(self._run(peer, session, sequence, request))
        self._running.add(task)

        def ended(_: object) -> None:
            self._running.discard(task)
            self._running_of[principal] -= 1
            if not self._running_of[principal]:
                del self._running_of[principal]

        task.add_done_callback(ended)

    def _send_again(self, peer: Peer, session: InbandSession, part: MessagePart) -> None:
        request = session.requests.get(part.sequence)
        if request is None or request.answer is None:
            self.counts["old"] += 1
            return
        self._respond(peer, session, part.sequence, request, unpack_numbers(part.body, request.answer))

    def _respond(
        self, peer: Peer, session: InbandSession, sequence: int, request: SessionRequest, numbers: Iterable[int]
    ) -> None:
        """Send the parts of the answer that have these numbers, as far as there are such parts."""
        answer, name = request.answer or (), session.welcome.session
        for number in numbers:
            if number < len(answer):
                part = MessagePart(MessageKind.RESPONSE, name, sequence, number, len(answer), answer[number])
                self._reply(peer, pack(part, session.key))

    async def _run(self, peer: Peer, session: InbandSession, sequence: int, request: SessionRequest) -> None:
        answer = cut(await self._answer(peer, session, sequence, request))
        if self.sessions.is_open(session):
            session.answered(request, answer)
            self._respond(peer, session, sequence, request, range(MAX_PARTS_IN_FLIGHT))

    async def _answer(self, peer: Peer, session: InbandSession, sequence: int, request: SessionRequest) -> bytes:
        try:
            call = ApiRequest.unpack(request.gathering.whole())
            session.forget_below(min(call.floor, sequence))
            async with asyncio.timeout(self._limits.answer_seconds):
                return _packed(await self._carry_out(peer, session, call))
        except WireError as error:
            return _problem(BadRequest(error.reason, field=error.field, value=error.value))
        except PleromaError as error:
            return _problem(error)
        except Exception as error:  # the application has logged it; the client is to know too
            log.error("an in-band request failed", kind=type(error).__name__, reason=str(error))
            return ApiResponse(500).pack()

    async def _carry_out(self, peer: Peer, session: InbandSession, call: ApiRequest) -> ApiResponse:
        if call.path.partition("?")[0] == _STREAM:
            raise BadRequest("a stream does not fit into packets: ask now and then", field="path", value=call.path)
        host = await self._admission.admit(peer, session.wanted_name)
        known = InBandCaller(session.principal, session.digest, host)
        return await call_app(self._app, call, (str(peer.address), peer.port), **{IN_BAND_SCOPE: known})


def _bucket(place: Place) -> str:
    """The name of a place among the rates."""
    return f"{place[0]} {place[1]}"


def _packed(response: ApiResponse) -> bytes:
    try:
        return response.pack()
    except WireError as error:
        raise TooLarge(f"the answer is too large to send: {error.reason}", field="answer", value=None) from None


def _problem(error: PleromaError) -> bytes:
    made = problem_response(error)
    headers = tuple((name, value) for name, value in made.headers.items() if name in ANSWER_HEADERS)
    return ApiResponse(made.status_code, headers, bytes(made.body)).pack()
