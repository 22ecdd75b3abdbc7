"""Requests and answers between a client and the controller, in datagrams that may be lost, repeated or out of order.

A conversation goes like this:

1. The client sends `Hello` with the name of its principal, until the controller answers. The first answer is a
   `Challenge` with a cookie: the client sends `Hello` again with the cookie and with proof of its token. The controller
   answers that with `Welcome`, which begins a session, and both sides now have a key that nobody else has.
2. The client numbers its requests, and sends each in parts that fit into a datagram. The controller carries a request
   out once, however often its parts arrive, and sends the answer in parts too.
3. Each side asks the other for parts that it lacks. Only the client keeps a clock: while nothing arrives, it sends the
   last part of its request again, or asks again for the parts of the answer.
4. If the controller says that it does not know the session, the client waits a while for a sign of the contrary, since
   anybody can say so. Then the requests under way end with `SessionLost`, and the next request begins a new session.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Protocol

from pleroma.errors import WireError
from pleroma.wire.api_call import ApiRequest, ApiResponse
from pleroma.wire.inband_messages import (
    NO_COOKIE,
    NONCE_BYTES,
    Challenge,
    Hello,
    MessageKind,
    MessagePart,
    MessageRefused,
    RefusalReason,
    Welcome,
    is_genuine,
    pack,
    unpack,
)
from pleroma.wire.parts import MAX_PARTS_IN_FLIGHT, Assembly, cut, pack_numbers, unpack_numbers
from pleroma.wire.token_proof import session_key

MAX_REQUESTS_IN_FLIGHT = 8
"""Other requests wait for one of these to end."""
FIRST_RESEND_SECONDS = 0.2
MAX_RESEND_SECONDS = 1.0
RESEND_FACTOR = 1.5
"""A pause before something is sent again is by so much longer than the pause before it."""
DOUBT_SECONDS = 0.5
"""How long the client waits for a sign of the session, after somebody said that there is none."""


class Pipe(Protocol):
    """A way to the controller for datagrams."""

    def send(self, data: bytes) -> None:
        """Send a datagram, which may get lost."""

    def close(self) -> None: ...


class SessionLost(Exception):
    """The session ended before the answer came; it is not known whether the request was carried out."""


@dataclass(slots=True)
class _ClientSession:
    id: bytes
    key: bytes
    pipe: Pipe
    """The one that the controller answered the hello at."""
    host: str
    doubted_since: float | None = None
    """When somebody first said that the controller does not know this session; None if nobody does."""


@dataclass(slots=True)
class _PendingRequest:
    """A request, and as much of its answer as has arrived."""

    parts: Sequence[bytes]
    answer: Assembly | None = None
    progress: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the controller has sent anything about this request."""


class Conversation:
    """`open_pipes` is called once, with a callable for each datagram that arrives and the pipe that it came by.

    `key` is the client's key (`wire.token_proof`), and `host` is the name that this machine asks to have as a host.
    """

    def __init__(
        self,
        principal: str,
        key: bytes,
        host: str,
        open_pipes: Callable[[Callable[[Pipe, bytes], None]], Sequence[Pipe]],
    ) -> None:
        self.refusal: RefusalReason | None = None
        """Why somebody refused the present hello. It may be anybody who says so."""
        self._hello = Hello(secrets.token_bytes(NONCE_BYTES), principal, host)
        self._key = key
        self._open_pipes = open_pipes
        self._pipes: Sequence[Pipe] | None = None
        self._session: _ClientSession | None = None
        self._welcomed = asyncio.Event()
        self._greeting = asyncio.Lock()
        self._sequence = count(1)
        self._pending: dict[int, _PendingRequest] = {}
        """By sequence number."""
        self._slots = asyncio.Semaphore(MAX_REQUESTS_IN_FLIGHT)

    @property
    def is_greeted(self) -> bool:
        return self._session is not None

    @property
    def host(self) -> str:
        """The name that the controller had for this host when the session began; empty if it had none."""
        return self._session.host if self._session else ""

    async def ask(self, request: ApiRequest) -> ApiResponse:
        """The answer to a request, however long that takes; raises `SessionLost` if there can be none any more."""
        async with self._slots:
            session = await self._begin_session()
            return await self._exchange(session, request)

    def close(self) -> None:
        for pipe in self._pipes or ():
            pipe.close()
        self._pipes = ()

    def received(self, pipe: Pipe, data: bytes) -> None:
        """Take a datagram. What is not genuine is ignored, and nothing in it raises an error."""
        try:
            message = unpack(data)
        except WireError:
            return
        match message:
            case Challenge():
                self._take_challenge(pipe, message)
            case Welcome():
                self._take_welcome(pipe, message, data)
            case MessageRefused():
                self._take_refusal(message)
            case MessagePart():
                self._take_part(message, data)
            case Hello():
                pass  # from another client

    async def _begin_session(self) -> _ClientSession:
        """The present session, or a new one: says hello at all pipes, until the controller answers at one."""
        async with self._greeting:
            if self._pipes is None:
                self._pipes = self._open_pipes(self.received)
            pause = FIRST_RESEND_SECONDS
            while self._session is None:
                self._welcomed.clear()
                hello = pack(self._hello, self._key)
                for pipe in self._pipes:
                    pipe.send(hello)
                await _happens(self._welcomed, pause)
                pause = min(RESEND_FACTOR * pause, MAX_RESEND_SECONDS)
            return self._session

    async def _exchange(self, session: _ClientSession, request: ApiRequest) -> ApiResponse:
        """Send a request and gather the answer."""
        sequence = next(self._sequence)
        floor = min(self._pending, default=sequence)
        pending = self._pending[sequence] = _PendingRequest(cut(replace(request, floor=floor).pack()))
        try:
            self._send_parts(session, sequence, pending, range(min(MAX_PARTS_IN_FLIGHT, len(pending.parts))))
            pause = FIRST_RESEND_SECONDS
            while pending.answer is None or not pending.answer.is_complete:
                pending.progress.clear()
                if await _happens(pending.progress, pause):
                    pause = FIRST_RESEND_SECONDS
                    continue
                pause = min(RESEND_FACTOR * pause, MAX_RESEND_SECONDS)
                self._check_session(session)
                if pending.answer is None:  # the last part alone: the controller then asks for those that it lacks
                    self._send_parts(session, sequence, pending, [len(pending.parts) - 1])
                else:
                    self._ask_for_parts(session, sequence, pending.answer)
            return ApiResponse.unpack(pending.answer.whole())
        finally:
            del self._pending[sequence]

    def _check_session(self, session: _ClientSession) -> None:
        """End the session if it was doubted for too long; raises `SessionLost` if it has ended."""
        since = session.doubted_since
        is_over = since is not None and asyncio.get_running_loop().time() - since >= DOUBT_SECONDS
        if is_over and self._session is session:
            self._session = None
            self._hello = replace(self._hello, nonce=secrets.token_bytes(NONCE_BYTES))
        if self._session is not session:
            raise SessionLost

    def _send_parts(
        self, session: _ClientSession, sequence: int, pending: _PendingRequest, numbers: Sequence[int]
    ) -> None:
        for number in numbers:
            body, many = pending.parts[number], len(pending.parts)
            part = MessagePart(MessageKind.REQUEST, session.id, sequence, number, many, body)
            session.pipe.send(pack(part, session.key))

    def _ask_for_parts(self, session: _ClientSession, sequence: int, answer: Assembly) -> None:
        """Tell the controller which parts of an answer have not arrived."""
        numbers = pack_numbers(answer.lacking())
        part = MessagePart(MessageKind.LACKS_RESPONSE, session.id, sequence, 0, 1, numbers)
        session.pipe.send(pack(part, session.key))

    def _take_challenge(self, pipe: Pipe, challenge: Challenge) -> None:
        """Say hello with proof, by the way that the cookie came. With a stranger's cookie it is worth nothing."""
        if self._session is None and challenge.nonce == self._hello.nonce and challenge.cookie != NO_COOKIE:
            pipe.send(pack(replace(self._hello, cookie=challenge.cookie), self._key))

    def _take_welcome(self, pipe: Pipe, welcome: Welcome, data: bytes) -> None:
        if self._session is not None or welcome.nonce != self._hello.nonce:
            return
        key = session_key(self._key, welcome.nonce, welcome.server_nonce)
        if is_genuine(data, key):
            self._session = _ClientSession(welcome.session, key, pipe, welcome.host)
            self.refusal = None
            self._welcomed.set()

    def _take_refusal(self, refused: MessageRefused) -> None:
        """Remember why a hello was refused, or begin to doubt the session. A refusal carries no proof."""
        session = self._session
        if session is None:
            if refused.about == self._hello.nonce:
                self.refusal = refused.reason
        elif refused.about[: len(session.id)] == session.id and session.doubted_since is None:
            session.doubted_since = asyncio.get_running_loop().time()

    def _take_part(self, part: MessagePart, data: bytes) -> None:
        """Take a part of an answer, or send the parts of a request that the controller lacks."""
        session, pending = self._session, self._pending.get(part.sequence)
        if session is None or part.session != session.id or not is_genuine(data, session.key):
            return
        session.doubted_since = None
        if pending is None:
            return
        if part.kind is MessageKind.LACKS_REQUEST:
            pending.progress.set()
            self._send_parts(session, part.sequence, pending, unpack_numbers(part.body, pending.parts))
        elif part.kind is MessageKind.RESPONSE:
            if pending.answer is None:
                pending.answer = Assembly(part.parts)
            if pending.answer.parts != part.parts:
                return
            pending.progress.set()
            if pending.answer.add(part.part, part.body):
                self._ask_for_parts(session, part.sequence, pending.answer)


async def _happens(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, for at most so many seconds; returns whether it happened."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
