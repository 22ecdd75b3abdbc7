"""The state of the control plane together with the log that it follows: log first, then state, then the answer.

A command is checked, made durable, and folded into the state. Whatever moment the process dies at, the log holds all
that was answered, and a new process comes to the same state from it. While a large command is folded in another thread,
nobody reads the state: see `settled`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import structlog

from pleroma.control.control_state import ControlState
from pleroma.control.kept_answers import KeptAnswers, check_key
from pleroma.control.log.durable_log import LOG_START, Log, Position
from pleroma.control.log.group_commit import GroupCommit
from pleroma.control.log.moved_mark import refuse_moved
from pleroma.control.log.sqlite_log import SqliteLog
from pleroma.control.log_fold import Folded, LogEntry, LogFold, entry_of, log_body, read_body
from pleroma.control.state.command import Begin, Command, Register
from pleroma.control.state.control_settings import ControlSettings
from pleroma.control.state.result import CommandRefused, Done, Result
from pleroma.control.state_snapshot import restore, taken, upgraded
from pleroma.errors import ControlError, LogError
from pleroma.index import EVERYTHING, DzSet
from pleroma.routing import Topology

log = structlog.get_logger("pleroma.control")

LOG_FILE_NAME = "control.sqlite"
LOG_RETRY_SECONDS = 30.0
"""So long after the log could not be written, a snapshot is saved to find out whether it can be again."""
TOLD_PER_TURN = 50
"""Registrations and withdrawals that listeners hear of before the event loop looks at something else."""


@dataclass(slots=True, eq=False)
class _Call:
    """A command on its way through the log, with a place for what becomes of it."""

    entry: LogEntry
    is_own: bool = True
    """Whether it was made in this process."""
    folded: Folded | None = None


class LoggedState:
    """Use `LoggedState.open`. It takes commands by `submit`, and saves a snapshot after every so many entries."""

    def __init__(
        self, log: Log, state: ControlState, answers: KeptAnswers, after: Position, snapshot_every: int
    ) -> None:
        """`after` is the last entry that the state holds; the entries behind it are applied here."""
        self.state = state
        self._writing_failure: LogError | None = None
        """Why the last command could not be written, unless the log could be written since."""
        self.snapshot_failure: LogError | None = None
        """Why the last snapshot could not be saved. The log holds everything nevertheless."""
        self._fold = LogFold(state, answers)
        self._listeners: list[Callable[[Position, Command, Result], Awaitable[None]]] = []
        self.leadership: int | None = None
        """Under which leadership this process appends, if it leads."""
        self.is_shared = log.is_shared
        self._snapshot_every = snapshot_every
        self._saved = after
        self._saving: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._awaited: dict[Position, list[asyncio.Future[None]]] = {}
        """By position: who waits until the state holds its entry."""
        self._is_ahead = False
        """The state holds a command that the log does not."""
        self._closing = False
        self._commit: GroupCommit[_Call] = GroupCommit(log, self, after=after)
        self._told = self._commit.applied
        """The last entry that all listeners were told of."""

    @classmethod
    def open(
        cls,
        where: Log | str | Path,
        topology: Topology,
        settings: ControlSettings,
        snapshot_every: int,
        share: DzSet = EVERYTHING,
    ) -> Self:
        """Go on from what a log holds, or begin it: this one, or the one in a folder. It is closed with the state.

        Rules are computed in a share of the dz.
        """
        log = open_log(Path(where)) if isinstance(where, str | Path) else where
        try:
            recovery = log.latest_snapshot()
            if recovery.snapshot is not None:
                state, answers = restore(recovery.snapshot.state, topology, settings, share)
            else:
                state, answers = ControlState(topology, settings, share), KeptAnswers()
            if log.head == LOG_START:
                log.append([log_body(Begin(settings.to_json(), state.network))])
            return cls(log, state, answers, recovery.position, snapshot_every)
        except BaseException:
            log.close()
            raise

    @property
    def position(self) -> Position:
        """The last entry that the state holds."""
        return self._commit.applied

    @property
    def log_failure(self) -> LogError | None:
        """Why the last command could not be written, or why those of other processes cannot be read at the moment."""
        return self._writing_failure or self._commit.following_failure

    @property
    def astray(self) -> asyncio.Event:
        """Set when the state no longer follows the log, and never will."""
        return self._commit.astray

    def follow_others(self) -> None:
        """Apply what other processes append to a shared log, too, from now on."""
        self._commit.follow_others()

    async def settled(self) -> None:
        """Wait until no large command is under way. The state is settled until the caller waits for something else."""
        await self._commit.settled()

    def settle(self) -> None:
        """Make sure that no other thread changes the state: the event loop stands still until it is done."""
        self._commit.settle()

    def subscribe(self, listener: Callable[[Position, Command, Result], Awaitable[None]]) -> None:
        """Have the listener called for every command from now on, in the order of the log, right after it is applied.

        It must not raise an error. The next command is applied when it has returned.
        """
        self._listeners.append(listener)

    async def submit(self, command: Command, key: str | None = None) -> tuple[Position, Done]:
        """Carry out a command: on return it is durable and applied, at this position. A refusal is raised.

        With a key, the same command may be sent again, also after a restart: it is carried out once, and answered as
        the first time. A command that is refused at once is not written, so its key stays free.
        """
        if isinstance(command, Begin):
            raise ControlError("a log begins once")
        await self.settled()
        entry = entry_of(command, key, self.leadership)
        if key is not None:
            check_key(key)
            kept = self._fold.answers.repeated(key, entry.request)
            if kept is not None:
                return Position(kept.position), _carried_out(kept.result)
        error = self.state.check(command)
        if error is not None:
            raise error
        if self.is_shared and isinstance(command, Register):
            self.state.cover_beforehand(self.position, command)
        call = _Call(entry)
        try:
            if self._is_ahead:  # what follows in the log has to be read on top of that
                await self.save_snapshot()
            await self._commit.append(entry.body, call)
        except LogError as error:
            self._writing_failure = error
            self._save_later()
            raise
        self._writing_failure = None
        assert call.folded is not None  # noqa: S101 (it was)
        return call.folded.position, _carried_out(call.folded.result)

    async def reached(self, position: Position) -> None:
        """Wait until the state holds the entry at a position, and all listeners were told of it."""
        if position > self._told:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waiting = self._awaited.setdefault(position, [])
            waiting.append(future)
            try:
                await future
            finally:
                waiting.remove(future)
                if not waiting:
                    self._awaited.pop(position, None)
        await self.settled()

    async def apply_unlogged(self, command: Command) -> None:
        """Apply a command that cannot wait until the log can be written. Nothing is logged then before a snapshot."""
        await self.settled()
        self._is_ahead = True
        if not self.state.is_large(command):
            result = self.state.apply(self.position, command)
            await self._tell_listeners(self.position, command, result)
            return
        applied: list[Result] = []

        def fold() -> None:
            self.state.registrations.hold_back()
            applied.append(self.state.apply(self.position, command))

        async def tell() -> None:
            await self._tell_held_back()
            await self._tell_listeners(self.position, command, applied[0])

        await self._commit.fold_unlogged(fold, tell)

    async def save_snapshot(self) -> Position:
        """Save the state, so that the next restart has little to apply."""
        self._saved = self.position
        was_ahead, self._is_ahead = self._is_ahead, False
        try:
            position = await self._commit.save_snapshot(lambda: taken(self.state, self._fold.answers))
        except BaseException:
            self._is_ahead |= was_ahead
            raise
        self._writing_failure = None
        return position

    async def close(self, *, with_snapshot: bool = True) -> None:
        """Finish the commands that were taken, save a snapshot, and close the log."""
        self._closing = True
        if self._retry is not None:
            self._retry.cancel()
        if self._saving is not None:
            await self._saving
        if with_snapshot and (self._is_ahead or self._saved < self.position):
            await self._save()
        await self._commit.close()

    def received(self, body: bytes) -> _Call:
        return _Call(read_body(body), is_own=False)

    def fold(self, position: Position, body: bytes, call: _Call | None) -> None:
        """Fold an entry into the state; without a call it is an entry of an earlier process."""
        if call is None:
            self._fold.fold(position, body)
            return
        if self.is_large(call):
            self.state.registrations.hold_back()
        call.folded = self._fold.fold(position, body, call.entry)

    def is_large(self, call: _Call) -> bool:
        return self.state.is_large(call.entry.command)

    async def tell(self, position: Position, call: _Call) -> None:
        """Tell all listeners of a command that was folded, and save a snapshot after every so many.

        Of several processes that follow a shared log, the one that appended an entry saves the snapshot there.
        """
        assert call.folded is not None  # noqa: S101 (it was)
        await self._tell_held_back()
        if call.folded.position == position:
            await self._tell_listeners(position, call.entry.command, call.folded.result)
        self._told = position
        for future in self._awaited.get(position, ()):
            if not future.done():
                future.set_result(None)
        if self.is_shared:
            is_due = call.is_own and position % self._snapshot_every == 0
        else:
            is_due = position - self._saved >= self._snapshot_every
        if is_due:
            self._begin_saving()

    async def _tell_held_back(self) -> None:
        """Tell of the registrations that another thread has changed, and let others have their turn meanwhile."""
        while self.state.registrations.tell(TOLD_PER_TURN):
            await asyncio.sleep(0)

    async def _tell_listeners(self, position: Position, command: Command, result: Result) -> None:
        for listener in self._listeners:
            await listener(position, command, result)

    def _begin_saving(self) -> None:
        if self._saving is None and not self._closing:
            self._saving = asyncio.get_running_loop().create_task(self._save(), name="snapshot")

    def _save_later(self) -> None:
        """Save a snapshot in a while: nobody else may try whether the log can be written again."""
        if self._retry is None and not self._closing:
            self._retry = asyncio.get_running_loop().call_later(LOG_RETRY_SECONDS, self._save_again)

    def _save_again(self) -> None:
        self._retry = None
        if self._writing_failure is not None or self.snapshot_failure is not None:
            self._begin_saving()

    async def _save(self) -> None:
        try:
            await self.save_snapshot()
            self.snapshot_failure = None
        except LogError as error:
            if self.snapshot_failure is None:
                log.warning("no snapshot could be saved", reason=error.reason)
            self.snapshot_failure = error
            self._save_later()
        finally:
            self._saving = None


def open_log(folder: Path) -> SqliteLog:
    """The log in a folder, in the present format, unless it was moved elsewhere."""
    log = brought_up_to_date(folder)
    try:
        refuse_moved(folder / LOG_FILE_NAME)
    except BaseException:
        log.close()
        raise
    return log


def brought_up_to_date(folder: Path) -> SqliteLog:
    """The log in a folder, in the present format, also if it was moved elsewhere."""
    log = SqliteLog.open(folder / LOG_FILE_NAME)
    try:
        if log.is_of_earlier_format:
            log.rewrite(b'"create_principal"', _written_anew, upgraded)
    except BaseException:
        log.close()
        raise
    return log


def _carried_out(result: Result) -> Done:
    if isinstance(result, CommandRefused):
        raise result.error
    return result


def _written_anew(body: bytes) -> bytes:
    """The body as this version writes it."""
    entry = read_body(body)
    return log_body(entry.command, entry.key)
