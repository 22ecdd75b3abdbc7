"""uvicorn's HTTP protocol with bounds on what a connection may hold and how long it may take.

uvicorn counts neither the bytes of a request's head nor the time a request takes to come. Here a head, or anything else
of a request that is not its body (chunk sizes and their extensions, trailers, blank lines), is cut at 64 KiB. A client
that is late with a request, or does not take its answer, is cut as well. An answer that takes its time is not: streams
last as long as they like, and so does a client that waits.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from pleroma.service.http.connections.caller_address import caller_address
from pleroma.service.http.connections.connection_table import ConnectionTable, Seat
from pleroma.service.http.connections.joined_writes import JoinedWrites
from pleroma.service.http.json_answers import to_bytes

CONNECTION_SCOPE = "pleroma.connection"
"""The key of the `GuardedHttp` in the ASGI scope of a request that came by a connection."""
MAX_HEAD_BYTES = 65_536
MAX_HEADERS = 128
MAX_WAITING_REQUESTS = 16
"""Requests that a client may send before it has the answer to an earlier one."""
HEAD_SECONDS = 10
"""From the connection, or the first byte of a later request, to the end of the headers."""
ARRIVAL_SECONDS = 60
"""From the first byte of a request to the last of its body."""
UNREAD_SECONDS = 30
"""How long the client may let an answer wait that is longer than what the operating system keeps for it."""
KEEP_ALIVE_SECONDS = 75
TLS_BYTES = 32_768
"""What TLS holds for a connection, beyond one in clear; measured at 37 KB."""
_CLOSING_SECONDS = 5
_PIECE_BYTES = 16_384
"""What is received is looked at in pieces of this size, so that one read does not exceed a bound by much."""
_STATUS_LINES = {
    400: b"HTTP/1.1 400 Bad Request\r\n",
    431: b"HTTP/1.1 431 Request Header Fields Too Large\r\n",
}


class GuardedHttp(HttpToolsProtocol):
    """One connection. It is made by uvicorn, for `functools.partial(GuardedHttp, table)`."""

    def __init__(self, table: ConnectionTable, **given: Any) -> None:
        super().__init__(**given)
        self._table = table
        self._seat: Seat | None = None
        self._began: int | None = table.tick
        """When the request began to come that is not there in full; None if there is no such request."""
        self._in_head = True
        self._quiet_since = table.tick
        self._allowance = MAX_HEAD_BYTES
        """How many more bytes may come that are no body."""
        self._received = 0
        """Bytes of requests that are not yet answered."""
        self._unread = 0
        """Bytes of an answer that the client does not take, while it does not."""
        self._unread_since: int | None = None
        self.carrier: asyncio.Transport | None = None
        """Under TLS, the transport beneath it, which holds what the client does not take."""
        self._full_since: int | None = None
        """Since when the carrier has held more than a little."""
        self._closing_since: int | None = None
        self._answering: RequestResponseCycle | None = None
        """The request that is being answered; `cycle` is the last that came."""

    def belong_to(self, principal: str | None) -> None:
        """The client has shown a token of this principal, or (None) one that is not valid."""
        if self._seat is not None:
            self._seat.belong_to(principal)

    def cut(self) -> None:
        self.transport.abort()

    def overdue(self) -> str | None:
        now = self._table.tick
        if self.transport.is_closing():
            self._closing_since = self._closing_since or now
            return "unread" if now - self._closing_since > _CLOSING_SECONDS else None
        self._weigh()
        for since in (self._unread_since, self._full_since):
            if since is not None and now - since > UNREAD_SECONDS:
                return "unread"
        if self._began is not None:
            return "late" if now - self._began > (HEAD_SECONDS if self._in_head else ARRIVAL_SECONDS) else None
        return "idle" if self._is_quiet and now - self._quiet_since > KEEP_ALIVE_SECONDS else None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._seat = self._table.join(self, caller_address(self.client[0] if self.client else ""))
        self._weigh()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._seat is not None:
            self._seat.leave()
            self._seat = None
        super().connection_lost(exc)
        if self._answering is not None:  # uvicorn tells only the last request: a stream before it would go on for ever
            self._answering.disconnected = True
            self._answering.message_event.set()
        # or these would keep each other, and what came of a head, until garbage is collected
        self.scope = self.cycle = self._answering = self.parser = None  # type: ignore[assignment]
        self.carrier = None
        self.headers = []

    def data_received(self, data: bytes) -> None:
        if self._began is None:
            self._began, self._in_head = self._table.tick, True
        self._received += len(data)
        self._weigh()
        for start in range(0, len(data), _PIECE_BYTES):
            if self.transport.is_closing():
                return
            piece = data[start : start + _PIECE_BYTES]
            self._allowance -= len(piece)
            super().data_received(piece)
            if self._is_too_much:
                self.send_400_response("")
        self._weigh()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Refuse what came: uvicorn calls this for what it cannot read, and for errors in the methods below."""
        if self.transport.is_closing():
            return
        self._table.count("large" if self._is_too_much else "malformed")
        if not self._is_quiet:
            self.cut()  # the answer to an earlier request is under way
        elif self._is_too_much:
            self._refuse(431, "too_large", f"a request has {MAX_HEAD_BYTES} bytes and {MAX_HEADERS} headers at most")
        else:
            self._refuse(400, "bad_request", "this is not HTTP")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[CONNECTION_SCOPE] = self  # type: ignore[literal-required]
        self._began, self._in_head = self._table.tick, True

    def on_headers_complete(self) -> None:
        if self._is_too_much:
            raise ValueError("the head is too large")  # the parser stops here, and `send_400_response` is called
        super().on_headers_complete()
        self.cycle.transport = JoinedWrites(self.transport)  # type: ignore[assignment]
        self._in_head = False
        if not self.pipeline:
            self._answering = self.cycle

    def on_body(self, body: bytes) -> None:
        # as many bytes again may go to the sizes of chunks: a body in chunks of one byte is no honest one
        self._allowance = min(self._allowance + 2 * len(body), MAX_HEAD_BYTES)
        if self.cycle.response_complete:
            self._received -= len(body)  # nobody keeps it
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._allowance = MAX_HEAD_BYTES
        self._began = None
        self._quiet_since = self._table.tick

    def on_response_complete(self) -> None:
        self._answering = self.pipeline[-1][0] if self.pipeline else None
        super().on_response_complete()
        self._quiet_since = self._table.tick
        self._weigh()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread_since = self._table.tick
        self._unread = self.transport.get_write_buffer_size()
        self._weigh()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread_since = None
        self._unread = 0
        self._weigh()

    @property
    def _is_quiet(self) -> bool:
        """Whether no request waits for its answer."""
        return not self.pipeline and (self.cycle is None or self.cycle.response_complete)

    @property
    def _is_too_much(self) -> bool:
        return (
            self._allowance < 0
            or (self.headers is not None and len(self.headers) > MAX_HEADERS)
            or len(self.pipeline) > MAX_WAITING_REQUESTS
        )

    def _weigh(self) -> None:
        if self._began is None and self._is_quiet:
            self._received = 0
        held = self._received + self._unread
        if self.carrier is not None:  # TLS takes whatever is written, so nobody is told to pause
            carried = self.carrier.get_write_buffer_size()
            held += TLS_BYTES + carried
            if carried < _PIECE_BYTES:
                self._full_since = None
            elif self._full_since is None:
                self._full_since = self._table.tick
        if self._seat is not None:
            self._seat.weigh(held)

    def _refuse(self, status: int, code: str, reason: str) -> None:
        body = to_bytes({"error": {"code": code, "reason": reason, "field": None, "value": None}})
        head = b"connection: close\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        self.transport.write(_STATUS_LINES[status] + head + body)
        self.transport.close()
