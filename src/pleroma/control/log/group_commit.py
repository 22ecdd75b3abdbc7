"""Many requests, one sync: entries that arrive while a transaction is on its way to the disk share the next one.

The state follows the log here and nowhere else: each entry is folded into it once, in the order of the log, before the
caller who appended the entry is answered. If callers applied their own entries, one that is cancelled would leave out
its entry, and two that wake in another order would swap theirs. An entry that takes long is folded in another thread,
and the event loop goes on meanwhile. Where other processes append to the log as well, their entries are folded in their
places, also while nobody here appends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Generic, Protocol, Self, TypeVar

import structlog

from pleroma.background import collecting_later, in_background
from pleroma.control.log.durable_log import LOG_START, Log, Position, check_body
from pleroma.errors import EntriesDropped, LogDamaged, LogError

log = structlog.get_logger("pleroma.control")

_MAX_BATCH_ENTRIES = 256
_MAX_BATCH_BYTES = 4 * 2**20
_MAX_ENTRIES_PER_READ = 256
FOLLOW_WAIT_SECONDS = 30.0
"""How long one call waits for entries of other processes."""
FOLLOW_PAUSE_SECONDS = 0.005
"""After entries of others were folded, those that come in so long are read together."""
GATHER_SECONDS = 0.005
"""Between two transactions of a shared log, entries are gathered for so long: all who follow it read fewer of them."""
FOLLOW_RETRY_SECONDS = 0.5
"""So long after a shared log could not be read, it is read again."""

Call = TypeVar("Call")


class LogFollower(Protocol[Call]):
    """What follows a log. A call is what came along with an entry to `append`, or was made of somebody else's entry.

    Entries that were there from the start have none.
    """

    def received(self, body: bytes) -> Call:
        """The call that stands for an entry which another process has appended."""

    def fold(self, position: Position, body: bytes, call: Call | None) -> None:
        """Fold an entry into the state; may run in another thread.

        It must accept whatever is in the log: what may be refused is checked before it is appended. If it fails
        nevertheless, the state no longer follows the log, and nothing more is appended.
        """

    def is_large(self, call: Call) -> bool:
        """Whether to fold the entry of this call may take long."""

    async def tell(self, position: Position, call: Call) -> None:
        """Tell others what was folded; on the event loop, before the next entry is folded."""


@dataclass(frozen=True, slots=True, eq=False)
class _PendingEntry(Generic[Call]):
    body: bytes
    call: Call
    position: asyncio.Future[Position]


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
        self._turn = asyncio.Lock()
        """Held while anything is folded, and all are told of it."""
        self._unlogged: set[asyncio.Task[None]] = set()
        self._work: asyncio.Task[None] | None = None
        self._saving = asyncio.Lock()
        self._refusal: LogError | None = None
        self.astray = asyncio.Event()
        """Set when the state no longer follows the log, and never will: another has to be made from the log."""
        for position, body in log.read(after):
            follower.fold(position, body, None)
            self.applied = position
        self._is_behind = False
        """Others may have appended entries that are not folded yet."""
        self._following: asyncio.Task[None] | None = None

    @property
    def following_failure(self) -> LogError | None:
        """Why what other processes append cannot be heard of at the moment."""
        return self._log.following_failure

    async def append(self, body: bytes, call: Call) -> Position:
        """Append an entry. On return it is durable and folded; entries are in the order in which this was called.

        An error reaches all who shared the transaction. A caller who is cancelled while waiting takes the entry back if
        no transaction has taken it yet.
        """
        if self._refusal is not None:
            raise self._refusal
        check_body(body)
        pending = _PendingEntry(body, call, asyncio.get_running_loop().create_future())
        self._pending.append(pending)
        self._begin()
        return await pending.position

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

    async def fold_unlogged(self, fold: Callable[[], None], tell: Callable[[], Awaitable[None]]) -> None:
        """Fold something large that is not in the log, in another thread; then have others told, on the event loop.

        It is folded and told to the end, even if the caller is cancelled.
        """

        async def in_turn() -> None:
            async with self._turn:
                await self._fold_apart(fold, tell)

        task = asyncio.create_task(in_turn())
        self._unlogged.add(task)
        task.add_done_callback(self._unlogged.discard)
        await asyncio.shield(task)

    async def close(self) -> None:
        """Take no more entries, finish those that wait, and close the log."""
        self._refusal = self._refusal or LogError("the log is being closed")
        while self._work is not None:
            await asyncio.wait([self._work])
        if self._unlogged:
            await asyncio.wait(self._unlogged)
        async with self._saving:
            await asyncio.to_thread(self._finish)
        if self._following is not None:
            await asyncio.wait([self._following])

    def _finish(self) -> None:
        self._syncing.shutdown()
        self._folding.shutdown()
        self._log.close()  # this ends the wait for entries of others, too

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def follow_others(self) -> None:
        """Fold what other processes append, too, from now on. Nobody else appends to a log that is not shared."""
        if self._log.is_shared:
            self._following = asyncio.get_running_loop().create_task(self._follow_others(), name="log-follow")

    def _begin(self) -> None:
        if self._work is None:
            self._work = asyncio.get_running_loop().create_task(self._run(self._take()), name="log")

    async def _follow_others(self) -> None:
        """Have entries of other processes folded soon after they are in the log."""
        while self._refusal is None:
            try:
                head = await asyncio.to_thread(self._log.wait_beyond, self.applied, FOLLOW_WAIT_SECONDS)
            except LogError as error:
                if self._refusal is None:
                    log.warning("the log cannot be followed", reason=error.reason)
                    await asyncio.sleep(FOLLOW_RETRY_SECONDS)
                continue
            if self._work is not None:  # whoever appends here folds what others have appended before
                await asyncio.wait([self._work])
            if head > self.applied and self._refusal is None:
                self._is_behind = True
                self._begin()
                assert self._work is not None  # noqa: S101 (it has begun)
                await asyncio.wait([self._work])
                await asyncio.sleep(FOLLOW_RETRY_SECONDS if head > self.applied else FOLLOW_PAUSE_SECONDS)

    async def _run(self, batch: list[_PendingEntry[Call]]) -> None:
        """One transaction after the other, until no entry waits and none of another process is left to fold."""
        loop = asyncio.get_running_loop()
        try:
            while batch or (self._is_behind and self._refusal is None):
                if batch:
                    bodies = [each.body for each in batch]
                    try:
                        first = await loop.run_in_executor(self._syncing, self._log.append, bodies)
                    except Exception as error:
                        _fail(batch, error)
                        self._is_behind = self._log.is_shared  # whether it was appended may not be known
                    else:
                        await self._catch_up(Position(first - 1))
                        await self._follow(batch, first)
                else:
                    self._is_behind = False
                    await self._catch_up(None)
                if self._log.is_shared and self._pending:
                    await asyncio.sleep(GATHER_SECONDS)
                batch = self._take()
        except BaseException as error:  # also if the program stops the event loop in the middle
            self._refusal = LogError(f"the state stopped following the log after position {self.applied}")
            self._refusal.__cause__ = error
            _fail((*batch, *self._pending), self._refusal)
            self._pending.clear()
            self.astray.set()
        finally:
            self._work = None

    async def _catch_up(self, last: Position | None) -> None:
        """Fold what other processes have appended: all up to a position, or all that there is."""
        while last is None or self.applied < last:
            most = _MAX_ENTRIES_PER_READ if last is None else min(last - self.applied, _MAX_ENTRIES_PER_READ)
            try:
                loop = asyncio.get_running_loop()
                entries = await loop.run_in_executor(self._syncing, self._next_entries, most)
            except (EntriesDropped, LogDamaged):
                raise
            except LogError as error:
                if last is None:  # whoever follows the log tries again, and so does the next append
                    log.warning("the log cannot be followed", reason=error.reason)
                    return
                if self._refusal is not None:
                    raise
                await asyncio.sleep(FOLLOW_RETRY_SECONDS)  # own entries are in the log, and their callers wait
                continue
            for position, body in entries:
                await self._advance(position, body, self._follower.received(body))
            if len(entries) < most:
                return

    def _next_entries(self, most: int) -> list[tuple[Position, bytes]]:
        return list(islice(self._log.read(self.applied), most))

    def _take(self) -> list[_PendingEntry[Call]]:
        batch: list[_PendingEntry[Call]] = []
        size = 0
        while self._pending and len(batch) < _MAX_BATCH_ENTRIES and size < _MAX_BATCH_BYTES:
            pending = self._pending.popleft()
            if not pending.position.done():
                batch.append(pending)
                size += len(pending.body)
        return batch

    async def _follow(self, batch: Sequence[_PendingEntry[Call]], first: Position) -> None:
        """Fold the whole batch, then answer its callers."""
        for position, pending in enumerate(batch, first):
            await self._advance(Position(position), pending.body, pending.call)
        for position, pending in enumerate(batch, first):
            if not pending.position.done():
                pending.position.set_result(Position(position))

    async def _advance(self, position: Position, body: bytes, call: Call) -> None:
        async with self._turn:
            if not self._follower.is_large(call):
                self._follower.fold(position, body, call)
                self.applied = position
                await self._follower.tell(position, call)
                return

            async def tell() -> None:
                self.applied = position
                await self._follower.tell(position, call)

            await self._fold_apart(partial(self._follower.fold, position, body, call), tell)

    async def _fold_apart(self, fold: Callable[[], None], tell: Callable[[], Awaitable[None]]) -> None:
        """Fold something large in another thread. Nobody reads the state until all are told."""
        self._calm.clear()
        try:
            self._fold = self._folding.submit(_without_garbage_collection, fold)
            await asyncio.wait([asyncio.wrap_future(self._fold)])
            self._fold.result()
            await tell()
        finally:
            self._calm.set()


def _without_garbage_collection(fold: Callable[[], None]) -> None:
    with collecting_later():
        fold()


def _fail(batch: Sequence[_PendingEntry[Call]], error: BaseException) -> None:
    for pending in batch:
        if not pending.position.done():
            pending.position.set_exception(error)
