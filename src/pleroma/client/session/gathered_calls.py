"""Calls of one kind that many parts of a client make at once: those that come while one is under way share the next.

One call alone is a request of its own, as ever. A program that subscribes a thousand times, or comes back after the
controller has lost all that it registered, makes a few large requests instead of a thousand small ones.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from pleroma.client.backoff import Backoff
from pleroma.errors import ClientError, ControllerAway, PleromaError, RequestRefused
from pleroma.wire.api_terms import MAX_BATCH_ITEMS

T = TypeVar("T")

MAX_BATCH_BYTES = 768 * 2**10
"""What the items of one request have together: a controller takes 1 MiB, if it is not told otherwise."""
MAX_REQUESTS_UNDER_WAY = 2
MAX_LONE_REQUESTS = 8
"""Requests under way where the controller takes no batches."""
_NO_BATCHES = (404, 405, 413, 501)
"""How a controller refuses batches as such: it does not know them, or takes smaller bodies only."""


class _WaitingCall(NamedTuple, Generic[T]):
    item: T
    size: int
    answer: asyncio.Future[Any]


class GatheredCalls(Generic[T]):
    """`alone` makes the call for one item; `together` for several, and returns an answer or an error for each.

    `together` is None where the way to the controller takes no batches.
    """

    def __init__(
        self,
        alone: Callable[[T], Awaitable[Any]],
        together: Callable[[Sequence[T]], Awaitable[Sequence[Any]]] | None,
    ) -> None:
        self._alone = alone
        self._together = together
        self._waiting: deque[_WaitingCall[T]] = deque()
        self._senders: set[asyncio.Task[None]] = set()

    async def make(self, item: T, size: int, patience: float) -> Any:
        """The answer for an item of so many bytes. While the controller is away or busy, it is asked again for
        `patience` seconds.
        """
        from pleroma.client.api import is_temporary  # brings httpx, which is loaded where there is an API client

        loop, backoff = asyncio.get_running_loop(), Backoff(max_seconds=1.0)
        end = loop.time() + patience
        while True:
            call = _WaitingCall(item, size, loop.create_future())
            self._waiting.append(call)
            self._begin()
            try:
                return await call.answer
            except (ControllerAway, RequestRefused) as error:
                pause = backoff.pause(getattr(error, "retry_after", 0.0))
                if not is_temporary(error) or loop.time() + pause > end:
                    raise
            await asyncio.sleep(pause)

    def _begin(self) -> None:
        most = MAX_LONE_REQUESTS if self._together is None else MAX_REQUESTS_UNDER_WAY
        if len(self._senders) < most:
            sender = asyncio.get_running_loop().create_task(self._send(), name="gathered calls")
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)

    async def _send(self) -> None:
        """Make calls until none waits. It begins a turn later, when all who call in this one have called."""
        while calls := self._take():
            try:
                await self._answer(calls)
            except BaseException as error:
                failed = error if isinstance(error, PleromaError) else ClientError(f"a call was given up: {error!r}")
                for call in calls:
                    _settle(call, failed)
                if not isinstance(error, PleromaError):
                    raise

    def _take(self) -> list[_WaitingCall[T]]:
        """The next calls, for one request; those that nobody waits for any more are dropped."""
        taken: list[_WaitingCall[T]] = []
        room, most = MAX_BATCH_BYTES, 1 if self._together is None else MAX_BATCH_ITEMS
        while self._waiting and len(taken) < most and (not taken or self._waiting[0].size <= room):
            call = self._waiting.popleft()
            if not call.answer.done():
                taken.append(call)
                room -= call.size
        return taken

    async def _answer(self, calls: Sequence[_WaitingCall[T]]) -> None:
        if len(calls) == 1 or self._together is None:
            for call in calls:
                _settle(call, await self._alone(call.item))
            return
        try:
            answers = await self._together([call.item for call in calls])
        except RequestRefused as refused:
            if refused.status not in _NO_BATCHES:
                raise
            self._together = None
            self._waiting.extendleft(reversed(calls))
            for _ in range(MAX_LONE_REQUESTS):
                self._begin()
            return
        if len(answers) != len(calls):
            raise ClientError("the controller's answer has another number of results", field="results")
        for call, answer in zip(calls, answers, strict=True):
            _settle(call, answer)


def _settle(call: _WaitingCall[T], answer: Any) -> None:
    if call.answer.done():
        return  # whoever made the call has left
    if isinstance(answer, PleromaError):
        call.answer.set_exception(answer)
    else:
        call.answer.set_result(answer)
