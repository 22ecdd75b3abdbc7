"""Many requests, one sync: entries that arrive while a transaction is on its way to the disk share the next one.

The state follows the log here and nowhere else: `apply` is called once for each entry, in the order of the log, on the
event loop, before the caller who appended the entry is answered. If callers applied their own entries, one that is
cancelled would leave out its entry, and two that wake in another order would swap theirs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

from pleroma.control.log.entry import LOG_START, Appended, Entry, Outcome, Position
from pleroma.control.log.sqlite_log import Log
from pleroma.errors import LogError

_MAX_BATCH_ENTRIES = 256
_MAX_BATCH_BYTES = 4 * 2**20

Call = TypeVar("Call")


@dataclass(frozen=True, slots=True, eq=False)
class _PendingEntry(Generic[Call]):
    entry: Entry
    call: Call | None
    outcome: asyncio.Future[Outcome]


class GroupCommit(Generic[Call]):
    """The one way to append to a log on an event loop. It owns the log from here on, and closes it.

    `apply(position, body, call)` gets an entry with the call that came along with it to `append`; entries that the log
    had before have none. It must accept whatever is in the log: what may be refused is checked before it is appended.
    If it fails nevertheless, the state no longer follows the log, and nothing more is appended.
    """

    def __init__(
        self, log: Log, apply: Callable[[Position, bytes, Call | None], object], *, after: Position = LOG_START
    ) -> None:
        """`after` is the last entry that the state holds; what the log has beyond it is applied at once."""
        self.applied = after
        self._log = log
        self._apply = apply
        self._pending: deque[_PendingEntry[Call]] = deque()
        self._thread = ThreadPoolExecutor(1, "log")
        self._syncing = False
        self._refusal: LogError | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        for position, body in log.read(after):
            self._advance(position, body, None)

    async def append(self, entry: Entry, call: Call | None = None) -> Outcome:
        """Append an entry. On return it is durable and applied; entries are in the order in which this was called.

        An error reaches all who shared the transaction, and nothing of it is in the log. A caller who is cancelled
        while waiting takes the entry back if no transaction has taken it yet.
        """
        if self._refusal is not None:
            raise self._refusal
        pending = _PendingEntry(entry, call, asyncio.get_running_loop().create_future())
        self._pending.append(pending)
        self._begin()
        return await pending.outcome

    async def save_snapshot(self, state: Callable[[], bytes]) -> Position:
        """Save the state as it is now, and drop what the log then need not keep. Appends go on meanwhile.

        `state` is called here, so that it and the position cannot drift apart.
        """
        if self._refusal is not None:
            raise self._refusal
        loop, position = asyncio.get_running_loop(), self.applied
        await loop.run_in_executor(self._thread, self._log.save_snapshot, position, state())
        while self._refusal is None and await loop.run_in_executor(self._thread, self._log.compact) > 0:
            pass
        return position

    async def close(self) -> None:
        """Take no more entries, finish those that wait, and close the log."""
        self._refusal = self._refusal or LogError("the log is being closed")
        await self._idle.wait()
        await asyncio.to_thread(self._finish)

    def _finish(self) -> None:
        self._thread.shutdown()
        self._log.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # One transaction at a time, from `_begin` to `_done` and on to the next: there is no task that could be cancelled.

    def _begin(self) -> None:
        if self._syncing:
            return
        batch = self._take()
        if not batch:
            self._idle.set()
            return
        self._idle.clear()
        self._syncing = True
        loop = asyncio.get_running_loop()
        result = loop.run_in_executor(self._thread, self._log.append, [each.entry for each in batch])
        result.add_done_callback(lambda done: self._done(batch, done))

    def _take(self) -> list[_PendingEntry[Call]]:
        batch: list[_PendingEntry[Call]] = []
        size = 0
        while self._pending and len(batch) < _MAX_BATCH_ENTRIES and size < _MAX_BATCH_BYTES:
            pending = self._pending.popleft()
            if not pending.outcome.done():
                batch.append(pending)
                size += len(pending.entry.body)
        return batch

    def _done(self, batch: Sequence[_PendingEntry[Call]], result: asyncio.Future[list[Outcome]]) -> None:
        self._syncing = False
        error = result.exception()
        if error is not None:
            _fail(batch, error)
        else:
            self._follow(batch, result.result())
        self._begin()

    def _follow(self, batch: Sequence[_PendingEntry[Call]], outcomes: Sequence[Outcome]) -> None:
        """Apply the whole batch, then answer its callers."""
        try:
            for pending, outcome in zip(batch, outcomes, strict=True):
                if isinstance(outcome, Appended):
                    self._advance(outcome.position, pending.entry.body, pending.call)
        except Exception as error:
            self._refusal = LogError(f"the state stopped following the log after position {self.applied}")
            self._refusal.__cause__ = error
            _fail((*batch, *self._pending), self._refusal)
            self._pending.clear()
            return
        for pending, outcome in zip(batch, outcomes, strict=True):
            if not pending.outcome.done():
                pending.outcome.set_result(outcome)

    def _advance(self, position: Position, body: bytes, call: Call | None) -> None:
        self._apply(position, body, call)
        self.applied = position


def _fail(batch: Sequence[_PendingEntry[Call]], error: BaseException) -> None:
    for pending in batch:
        if not pending.outcome.done():
            pending.outcome.set_exception(error)
