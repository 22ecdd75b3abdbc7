"""The socket at which programs speak the API with the agent: HTTP on a Unix socket, with bounds on everything."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import unquote

import h11

from pleroma.errors import WireError
from pleroma.host_agent.agent_settings import AgentLimits
from pleroma.host_agent.controller_calls import MAX_UPSTREAM_CONNECTIONS
from pleroma.host_agent.local_programs import Credentials
from pleroma.host_agent.relayed_calls import problem
from pleroma.host_agent.unix_sockets import LocalUser, bind_private, user_of
from pleroma.wire.api_call import ApiRequest, ApiResponse
from pleroma.wire.api_terms import PRINCIPAL_HEADER, REQUEST_HEADERS

MAX_RELAY_HEAD_BYTES = 65_536
RELAY_ARRIVAL_SECONDS = 75.0
"""From the end of an answer to the end of the next request."""
RELAY_UNREAD_SECONDS = 30.0
"""How long a program may take to read an answer."""
MAX_REQUESTS_OF_A_USER = MAX_UPSTREAM_CONNECTIONS // 2
"""Requests of one user's programs that the controller is asked at a time."""
_READ_BYTES = 65_536

log = logging.getLogger("pleroma.agent")


class _NoRoom(Exception):
    """The programs of a user have more under way than the agent has room for."""


class _HeldBytes:
    """What one connection holds, of the bytes that `held` counts by user."""

    def __init__(self, held: Counter[int], user: int, most: int) -> None:
        self._held = held
        self._user = user
        self._most = most
        self._own = 0

    def take(self, more: int) -> None:
        if self._held[self._user] + more > self._most:
            raise _NoRoom(more)
        self._held[self._user] += more
        self._own += more

    def release(self) -> None:
        self._held[self._user] -= self._own
        self._own = 0


AnswerCall = Callable[[ApiRequest, Credentials, LocalUser], Awaitable[ApiResponse]]


class RelayListener:
    """Takes connections from being entered until it is left; `answer` answers what programs ask."""

    def __init__(self, path: Path, group: str | None, answer: AnswerCall, limits: AgentLimits) -> None:
        self._path = path
        self._group = group
        self._answer = answer
        self._limits = limits
        self._tasks: set[asyncio.Task[None]] = set()
        self._of_user: Counter[int] = Counter()
        self._held: Counter[int] = Counter()
        """Bytes of requests and answers that are under way, by user."""
        self._slots: defaultdict[int, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(MAX_REQUESTS_OF_A_USER)
        )
        """By user; the requests of one wait for each other, and those of others do not."""

    async def __aenter__(self) -> RelayListener:
        bound = bind_private(self._path, socket.SOCK_STREAM, self._group)
        self._server = await asyncio.start_unix_server(self._connected, sock=bound, limit=_READ_BYTES)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._path.unlink(missing_ok=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        user = user_of(writer.get_extra_info("socket").fileno())
        most = self._limits.max_connections
        try:
            if task is None or len(self._tasks) >= most or self._of_user[user.uid] >= max(most // 2, 1):
                return
            self._tasks.add(task)
            self._of_user[user.uid] += 1
            held = _HeldBytes(self._held, user.uid, self._limits.max_held_bytes)
            try:
                await self._converse(reader, writer, user, held)
            finally:
                held.release()
                self._tasks.discard(task)
                self._of_user[user.uid] -= 1
        except (h11.ProtocolError, OSError, TimeoutError, _NoRoom, asyncio.CancelledError) as error:
            log.debug("a connection of process %d ended: %r", user.pid, error)
        finally:
            writer.close()

    async def _converse(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, user: LocalUser, held: _HeldBytes
    ) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_RELAY_HEAD_BYTES)
        while True:
            async with asyncio.timeout(RELAY_ARRIVAL_SECONDS):
                head, body = await self._request(connection, reader, held)
            if head is None:
                return
            if len(body) > self._limits.max_body_bytes:
                answer = problem(413, "too_large", f"a body has at most {self._limits.max_body_bytes} bytes")
            else:
                answer = await self._answered(head, body, user)
            held.release()
            written = _written(connection, head, answer)
            held.take(len(written))
            writer.write(written)
            async with asyncio.timeout(RELAY_UNREAD_SECONDS):
                await writer.drain()
            held.release()
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()

    async def _request(
        self, connection: h11.Connection, reader: asyncio.StreamReader, held: _HeldBytes
    ) -> tuple[h11.Request | None, bytes]:
        """The next request and its body, cut where it is too long; None at the end of the connection."""
        head, body = None, bytearray()
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await reader.read(_READ_BYTES))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                held.take(len(event.data))
                body += event.data
            if isinstance(event, h11.EndOfMessage) or len(body) > self._limits.max_body_bytes:
                return head, bytes(body)
            if isinstance(event, h11.ConnectionClosed):
                return None, b""

    async def _answered(self, head: h11.Request, body: bytes, user: LocalUser) -> ApiResponse:
        given = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        kind, _, token = given.get("authorization", "").partition(" ")
        principal = unquote(given.get(PRINCIPAL_HEADER, "")) or None
        who = Credentials(token.strip() if kind.lower() == "bearer" else None, principal)
        headers = tuple((name, given[name]) for name in REQUEST_HEADERS if name in given)
        request = ApiRequest(head.method.decode("ascii"), head.target.decode("latin-1"), headers, body)
        try:
            request.checked()  # in-band it has to be of this form, and by HTTP nothing else is asked for
        except WireError as error:
            return problem(400, "bad_request", str(error))
        async with self._slots[user.uid]:
            return await self._answer(request, who, user)


def _written(connection: h11.Connection, head: h11.Request, answer: ApiResponse) -> bytes:
    """The bytes of an answer. A HEAD request gets no body."""
    headers = [*answer.headers, ("content-length", str(len(answer.body)))]
    if connection.their_state is not h11.DONE:
        headers.append(("connection", "close"))  # the rest of its body is not read
    body = b"" if head.method == b"HEAD" or answer.status in (204, 304) else answer.body
    parts = [connection.send(h11.Response(status_code=answer.status, headers=headers))]
    parts += [connection.send(h11.Data(data=body)), connection.send(h11.EndOfMessage())]
    return b"".join(part for part in parts if part)
