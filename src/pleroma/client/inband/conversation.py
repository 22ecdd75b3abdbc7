"""Requests and answers between a host and the controller in datagrams that may be lost, repeated or out of order.

The client keeps the clock: what is not answered is sent again, what is incomplete is asked for, part by part. The
controller carries a request out once, however often it comes. The first request begins a session; when the controller
has forgotten that, what was under way is lost as with a broken connection, and the next request begins another.
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
    NONCE_BYTES,
    Hello,
    MessageKind,
    MessagePart,
    MessageRefused,
    RefusalReason,
    Welcome,
    is_genuine,
    pack,
    session_key,
    unpack,
)
from pleroma.wire.parts import MAX_PARTS_IN_FLIGHT, Assembly, cut, pack_numbers, unpack_numbers

MAX_REQUESTS_IN_FLIGHT = 8
"""Requests under way; others wait."""
FIRST_RESEND_SECONDS = 0.2
MAX_RESEND_SECONDS = 1.0
"""Seconds until something is sent again."""
DOUBT_SECONDS = 0.5
"""How long a session is doubted before it counts as lost: that there is none anybody can say."""


class Pipe(Protocol):
    """A way to the controller."""

    def send(self, data: bytes) -> None:
        """Send a datagram, or fail to."""

    def close(self) -> None: ...


class SessionLost(Exception):
    """The session ended before the answer came; nobody knows whether the request was carried out."""


@dataclass(slots=True)
class _Session:
    name: bytes
    key: bytes
    pipe: Pipe
    host: str
    doubted: float | None = None
    """Since when somebody says that there is no such session."""


@dataclass(slots=True)
class _PendingRequest:
    """A request, and as much of its answer as has come."""

    parts: Sequence[bytes]
    answer: Assembly | None = None
    stirred: asyncio.Event = field(default_factory=asyncio.Event)


class Conversation:
    """`open_pipes` is called once, with what is to be called with each pipe and each datagram that comes from it."""

    def __init__(
        self,
        principal: str,
        key: bytes,
        host: str,
        open_pipes: Callable[[Callable[[Pipe, bytes], None]], Sequence[Pipe]],
    ) -> None:
        self.refusal: RefusalReason | None = None
        """What somebody said to the last hello that was not answered otherwise."""
        self._hello = Hello(secrets.token_bytes(NONCE_BYTES), principal, host)
        self._key = key
        self._open_pipes = open_pipes
        self._pipes: Sequence[Pipe] | None = None
        self._session: _Session | None = None
        self._welcomed = asyncio.Event()
        self._greeting = asyncio.Lock()
        self._sequence = count(1)
        self._waiting: dict[int, _PendingRequest] = {}
        self._slots = asyncio.Semaphore(MAX_REQUESTS_IN_FLIGHT)

    @property
    def is_greeted(self) -> bool:
        return self._session is not None

    @property
    def host(self) -> str:
        """The name of the host that this is, as far as the controller knew when the session began."""
        return self._session.host if self._session else ""

    async def ask(self, request: ApiRequest) -> ApiResponse:
        """The answer, however long that takes; or `Lost`."""
        async with self._slots:
            session = await self._greeted()
            return await self._exchange(session, request)

    def close(self) -> None:
        for pipe in self._pipes or ():
            pipe.close()
        self._pipes = ()

    # -- sessions ------------------------------------------------------------------------------------------------

    async def _greeted(self) -> _Session:
        async with self._greeting:
            if self._pipes is None:
                self._pipes = self._open_pipes(self.received)
            pause = FIRST_RESEND_SECONDS
            while self._session is None:
                self._welcomed.clear()
                hello = pack(self._hello, self._key)
                for pipe in self._pipes:
                    pipe.send(hello)
                await _within(self._welcomed, pause)
                pause = min(1.5 * pause, MAX_RESEND_SECONDS)
            return self._session

    def _lose(self, session: _Session) -> None:
        if self._session is session:
            self._session = None
            self._hello = replace(self._hello, nonce=secrets.token_bytes(NONCE_BYTES))

    # -- requests ------------------------------------------------------------------------------------------------

    async def _exchange(self, session: _Session, request: ApiRequest) -> ApiResponse:
        sequence = next(self._sequence)
        floor = min(self._waiting, default=sequence)
        waiting = self._waiting[sequence] = _PendingRequest(cut(replace(request, floor=floor).pack()))
        try:
            self._send_parts(session, sequence, waiting, range(min(MAX_PARTS_IN_FLIGHT, len(waiting.parts))))
            pause = FIRST_RESEND_SECONDS
            while waiting.answer is None or not waiting.answer.is_complete:
                waiting.stirred.clear()
                if await _within(waiting.stirred, pause):
                    pause = FIRST_RESEND_SECONDS
                    continue
                pause = min(1.5 * pause, MAX_RESEND_SECONDS)
                self._check(session)
                if waiting.answer is None:
                    self._send_parts(session, sequence, waiting, [len(waiting.parts) - 1])
                else:
                    self._ask_for_more(session, sequence, waiting.answer)
            return ApiResponse.unpack(waiting.answer.whole())
        finally:
            del self._waiting[sequence]

    def _check(self, session: _Session) -> None:
        doubted = session.doubted
        if doubted is not None and asyncio.get_running_loop().time() - doubted >= DOUBT_SECONDS:
            self._lose(session)
        if self._session is not session:
            raise SessionLost

    def _send_parts(self, session: _Session, sequence: int, waiting: _PendingRequest, numbers: Sequence[int]) -> None:
        for number in numbers:
            body = waiting.parts[number]
            part = MessagePart(MessageKind.REQUEST, session.name, sequence, number, len(waiting.parts), body)
            session.pipe.send(pack(part, session.key))

    def _ask_for_more(self, session: _Session, sequence: int, answer: Assembly) -> None:
        lacking = pack_numbers(answer.lacking())
        session.pipe.send(
            pack(MessagePart(MessageKind.LACKS_RESPONSE, session.name, sequence, 0, 1, lacking), session.key)
        )

    # -- what comes ----------------------------------------------------------------------------------------------

    def received(self, pipe: Pipe, data: bytes) -> None:
        """A datagram. What is not genuine is passed over, and nothing in it raises an error."""
        try:
            message = unpack(data)
        except WireError:
            return
        match message:
            case Welcome():
                self._heed_welcome(pipe, message, data)
            case MessageRefused():
                self._heed_refusal(message)
            case MessagePart():
                self._heed_part(message, data)
            case Hello():
                pass  # another client's

    def _heed_welcome(self, pipe: Pipe, welcome: Welcome, data: bytes) -> None:
        if self._session is None and welcome.nonce == self._hello.nonce and is_genuine(data, self._key):
            key = session_key(self._key, welcome.nonce, welcome.server_nonce)
            self._session = _Session(welcome.session, key, pipe, welcome.host)
            self.refusal = None
            self._welcomed.set()

    def _heed_refusal(self, refused: MessageRefused) -> None:
        session = self._session
        if session is None:
            if refused.about == self._hello.nonce:
                self.refusal = refused.reason
        elif refused.about[: len(session.name)] == session.name and session.doubted is None:
            session.doubted = asyncio.get_running_loop().time()

    def _heed_part(self, part: MessagePart, data: bytes) -> None:
        session, waiting = self._session, self._waiting.get(part.sequence)
        if session is None or part.session != session.name or not is_genuine(data, session.key):
            return
        session.doubted = None
        if waiting is None:
            return
        if part.kind is MessageKind.LACKS_REQUEST:
            waiting.stirred.set()
            self._send_parts(session, part.sequence, waiting, unpack_numbers(part.body, waiting.parts))
        elif part.kind is MessageKind.RESPONSE:
            if waiting.answer is None:
                waiting.answer = Assembly(part.parts)
            if waiting.answer.parts != part.parts:
                return
            waiting.stirred.set()
            if waiting.answer.add(part.part, part.body):
                self._ask_for_more(session, part.sequence, waiting.answer)


async def _within(event: asyncio.Event, seconds: float) -> bool:
    """Whether it happened in time."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
