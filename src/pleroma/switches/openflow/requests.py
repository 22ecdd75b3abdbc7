"""The requests over one connection that a switch has not answered yet.

Requests belong to a connection, never to a datapath: when a switch comes back, the answers to its old connection must
not be taken for those of the new one. An answer in parts is read part by part, so that no more waits than one message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pleroma.errors import SwitchError, SwitchRefused
from pleroma.switches.openflow.messages import BARRIER_REPLY, BARRIER_REQUEST, MULTIPART_REPLY, plain
from pleroma.switches.openflow.replies import ErrorMessage, ReplyPart

MAX_ANSWER_BYTES = 256 << 20
"""Bytes of all parts of an answer; a larger answer ends the connection."""

Make = Callable[[int, int], bytes]
"""Makes a message, given the version and the number (xid) of the message."""
Read = Callable[[bytes], Any]


@dataclass(slots=True)
class PendingRequest:
    """A request without an answer yet. `kind` is the type of the message that answers it; `read` reads that message."""

    xid: int
    kind: int
    read: Read
    multipart: int | None
    outcome: asyncio.Future[Any]
    parts: list[Any] = field(default_factory=list)
    size: int = 0

    def resolve(self, outcome: Any) -> None:
        # an error is a result too, since nobody may be waiting for it any more
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class PendingRequests:
    """All of one connection, by the number (xid) of the message that asked."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self.version = 0
        self._send = send
        self._next = 1
        self._open: dict[int, PendingRequest] = {}
        self._ended: SwitchError | None = None

    def number(self, count: int = 1) -> int:
        """The first of `count` unused numbers in a row. Zero is never used."""
        if self._next + count > 0xFFFFFFFF:
            self._next = 1
        first = self._next
        self._next += count
        return first

    def ask(self, make: Make, kind: int, read: Read, multipart: int | None = None) -> PendingRequest:
        """Send a message that a message of type `kind` answers."""
        request = PendingRequest(self.number(), kind, read, multipart, asyncio.get_running_loop().create_future())
        if self._ended is not None:
            request.resolve(self._ended)
            return request
        message = make(self.version, request.xid)
        self._open[request.xid] = request
        self._send(message)
        return request

    def ask_for_parts(self, make: Make, kind: int, read: Read) -> PendingRequest:
        """Send a message that is answered in parts; the answer is the list of what was read from each part."""
        return self.ask(make, MULTIPART_REPLY, read, kind)

    def barrier(self) -> PendingRequest:
        """Ask the switch to answer when it has done all that was sent before."""
        return self.ask(lambda version, xid: plain(version, BARRIER_REQUEST, xid), BARRIER_REPLY, len)

    async def answer(self, request: PendingRequest) -> Any:
        try:
            outcome = await request.outcome
        finally:
            self.forget(request)
        if isinstance(outcome, SwitchError):
            raise outcome
        return outcome

    def forget(self, request: PendingRequest) -> None:
        self._open.pop(request.xid, None)

    def answered(self, xid: int, kind: int, message: bytes) -> None:
        """Resolve a request with its answer. Ignores an answer that nobody waits for any more."""
        request = self._open.get(xid)
        if request is None:
            return
        if request.kind != kind or request.multipart is not None:
            raise SwitchError(f"message type {kind} is no answer to request {xid}", field="type", value=kind)
        answer = request.read(message)  # first: if it raises, the request is still open when the connection ends
        self.forget(request)
        request.resolve(answer)

    def answered_in_part(self, xid: int, part: ReplyPart) -> None:
        request = self._open.get(xid)
        if request is None:
            return
        if request.multipart != part.kind:
            raise SwitchError(f"statistics of type {part.kind} are no answer to request {xid}", field="type")
        request.size += len(part.body)
        if request.size > MAX_ANSWER_BYTES:
            raise SwitchError(f"an answer of more than {MAX_ANSWER_BYTES >> 20} MiB", field="multipart")
        request.parts.append(request.read(part.body))
        if not part.more:
            self.forget(request)
            request.resolve(request.parts)

    def refused(self, xid: int, refusal: ErrorMessage) -> bool:
        """Resolve a request with an error; False if there is no such request."""
        request = self._open.pop(xid, None)
        if request is None:
            return False
        request.resolve(refused(refusal))
        return True

    def end(self, error: SwitchError) -> None:
        """All requests, and those that are still made, have this error for an answer."""
        self._ended = error
        while self._open:
            _, request = self._open.popitem()
            request.resolve(error)


def refused(refusal: ErrorMessage, index: int | None = None, value: object = None) -> SwitchRefused:
    what = "the switch refuses" if index is None else f"the switch refuses change {index}"
    return SwitchRefused(f"{what}: {refusal}", kind=refusal.kind, code=refusal.code, index=index, value=value)
