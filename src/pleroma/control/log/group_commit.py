"""Many requests, one sync: entries that arrive while a transaction is on its way to the disk share the next one.

The state follows the log here and nowhere else: each entry is folded into it once, in the order of the log, before the
caller who appended the entry is answered. If callers applied their own entries, one that is cancelled would leave out
its entry, and two that wake in another order would swap theirs. An entry that takes long is folded in another thread,
and the event loop goes on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

from pleroma.background import collecting_later, in_background
from pleroma.control.log.entry import LOG_START, Appended, Entry, Outcome, Position
from pleroma.control.log.sqlite_log import Log
from pleroma.errors import LogError

_MAX_BATCH_ENTRIES = 256
_MAX_BATCH_BYTES = 4 * 2**20

Call = TypeVar("Call")
Call_contra = TypeVar("Call_contra", contravariant=True)


class LogFollower(Protocol[Call_contra]):
    """What follows a log. A call is what came along with an entry to `append`; entries that were there have none."""

    def fold(self, position: Position, body: bytes, call: Call_contra | None) -> None:
        """Fold an entry into the state; may run in another thread.

        It must accept whatever is in the log: what may be refused is checked before it is appended. If it fails
        nevertheless, the state no longer follows the log, and nothing more is appended.
        """

    def is_large(self, call: Call_contra) -> bool:
        """Whether to fold the entry of this call may take long."""

    async def tell(self, position: Position, call: Call_contra) -> None:
        """Tell others what was folded; on the event loop, before the next entry is folded."""


@dataclass(frozen=True, slots=True, eq=False)
class _PendingEntry(Generic[Call]):
    entry: Entry
    call: Call | None
    outcome: asyncio.Future[Outcome]


class GroupCommit(Generic[Call]):
    """The one way to append to a log on an event loop. It owns the log from here on, and closes it."""

    def __init__(self, log: Log, follower: LogFollower[Call], *, after: Position = LOG_START) -> None:
        """`after` is the last entry that the state holds; what the log has beyond it is folded at once."""
        self.applied = after
        self._log = log
        self._follower = follower
        self._pending: deque[_PendingEntry[Call]] = deque()
        self._syncing = ThreadPoolExecutor(1, "log")
        self._folding = ThreadPoolExecutor(1, "fold")
        self._fold: Future[None] | None = None
        """The entry that another thread folds, or has folded last."""
        self._calm = asyncio.Event()
        """Set unless a large entry is being folded, or has been and not all are told of it."""
        self._calm.set()
        self._work: asyncio.Task[None] | None = None
        self._saving = asyncio.Lock()
        self._refusal: LogError | None = None
        for position, body in log.read(after):
            follower.fold(position, body, None)
            self.applied = position

    async def append(self, entry: Entry, call: Call | None = None) -> Outcome:
        """Append an entry. On return it is durable and folded; entries are in the order in which this was called.

        An error reaches all who shared the transaction, and nothing of it is in the log. A caller who is cancelled
        while waiting takes the entry back if no transaction has taken it yet.
        """
        if self._refusal is not None:
            raise self._refusal
        pending = _PendingEntry(entry, call, asyncio.get_running_loop().create_future())
        self._pending.append(pending)
        if self._work is None:
            self._work = asyncio.get_running_loop().create_task(self._run(self._take()), name="log")
        return await pending.outcome

    async def settled(self) -> None:
        """Wait until no large entry is under way. The state is settled until the caller waits for something else."""
        while not self._calm.is_set():
            await self._calm.wait()

    def settle(self) -> None:
        """Make sure that no other thread changes the state: the event loop stands still until it is done."""
        if self._fold is not None:
            self._fold.exception()

    async def save_snapshot(self, state: Callable[[], Callable[[], bytes]]) -> Position:
        """Save the state as it is now, and drop what the log then need not keep. Appends go on meanwhile.

        `state` is called here, so that it and the position cannot drift apart. It returns quickly, with a function that
        makes the snapshot in another thread while the state changes.
        """
        async with self._saving:
            if self._refusal is not None:
                raise self._refusal
            await self.settled()
            loop, position, made = asyncio.get_running_loop(), self.applied, state()
            snapshot = await in_background(made)
            await loop.run_in_executor(self._syncing, self._log.save_snapshot, position, snapshot)
            while self._refusal is None and await loop.run_in_executor(self._syncing, self._log.compact) > 0:
                pass
            if self._refusal is None:
                await loop.run_in_executor(self._syncing, self._log.checkpoint)
            return position

    async def close(self) -> None:
        """Take no more entries, finish those that wait, and close the log."""
        self._refusal = self._refusal or LogError("the log is being closed")
        while self._work is not None:
            await asyncio.wait([self._work])
        async with self._saving:
            await asyncio.to_thread(self._finish)

    def _finish(self) -> None:
        self._syncing.shutdown()
        self._folding.shutdown()
        self._log.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, batch: Sequence[_PendingEntry[Call]]) -> None:
        """One transaction after the other, until no entry waits."""
        loop = asyncio.get_running_loop()
        try:
            while batch:
                entries = [each.entry for each in batch]
                try:
                    outcomes = await loop.run_in_executor(self._syncing, self._log.append, entries)
                except Exception as error:
                    _fail(batch, error)
                else:
                    await self._follow(batch, outcomes)
                batch = self._take()
        except BaseException as error:  # also if the program stops the event loop in the middle
            self._refusal = LogError(f"the state stopped following the log after position {self.applied}")
            self._refusal.__cause__ = error
            _fail((*batch, *self._pending), self._refusal)
            self._pending.clear()
        finally:
            self._work = None

    def _take(self) -> list[_PendingEntry[Call]]:
        batch: list[_PendingEntry[Call]] = []
        size = 0
        while self._pending and len(batch) < _MAX_BATCH_ENTRIES and size < _MAX_BATCH_BYTES:
            pending = self._pending.popleft()
            if not pending.outcome.done():
                batch.append(pending)
                size += len(pending.entry.body)
        return batch

    async def _follow(self, batch: Sequence[_PendingEntry[Call]], outcomes: Sequence[Outcome]) -> None:
        """Fold the whole batch, then answer its callers."""
        for pending, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, Appended):
                await self._advance(outcome.position, pending.entry.body, pending.call)
        for pending, outcome in zip(batch, outcomes, strict=True):
            if not pending.outcome.done():
                pending.outcome.set_result(outcome)

    async def _advance(self, position: Position, body: bytes, call: Call | None) -> None:
        if call is None or not self._follower.is_large(call):
            self._follower.fold(position, body, call)
            self.applied = position
            if call is not None:
                await self._follower.tell(position, call)
            return
        self._calm.clear()
        try:
            self._fold = self._folding.submit(self._fold_large, position, body, call)
            await asyncio.wait([asyncio.wrap_future(self._fold)])
            self._fold.result()
            self.applied = position
            await self._follower.tell(position, call)
        finally:
            self._calm.set()

    def _fold_large(self, position: Position, body: bytes, call: Call) -> None:
        with collecting_later():
            self._follower.fold(position, body, call)


def _fail(batch: Sequence[_PendingEntry[Call]], error: BaseException) -> None:
    for pending in batch:
        if not pending.outcome.done():
            pending.outcome.set_exception(error)
