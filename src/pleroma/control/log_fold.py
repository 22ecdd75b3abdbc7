"""What an entry of the log does to the state: its command is carried out, unless it repeats one that was before.

Whoever follows a log folds it in this way, so all come to the same state and to the same answers. Where several
processes share a log, an entry may have a line before its request: under which leadership it was appended, and what is
known of its filter. If another process leads by then, the entry is refused, so a process that was paused and goes on
does no harm.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pydantic_core import from_json

from pleroma.control.control_state import ControlState
from pleroma.control.kept_answers import KeptAnswers
from pleroma.control.log.durable_log import Position
from pleroma.control.state.command import Command, CoveredFilter, Register, canonical, command_from_json, written
from pleroma.control.state.result import CommandRefused, Result
from pleroma.errors import KeyConflict, NotLeading

FIRST_POSITION = 1
"""Where a log says for which network, and with which settings, it was begun."""


class LogEntry(NamedTuple):
    """An entry of the log as it is read."""

    command: Command
    key: str | None
    leadership: int | None
    """Under which it was appended, if it was under one."""
    request: bytes
    """Command and key: what may come again elsewhere."""

    @property
    def body(self) -> bytes:
        command = self.command
        known: dict[str, Any] = {} if self.leadership is None else {"leadership": self.leadership}
        if isinstance(command, Register) and command.covered is not None:
            known["covered"] = command.covered.to_json()
        return canonical(known).encode() + b"\n" + self.request if known else self.request


class Folded(NamedTuple):
    """What became of a request, which stands at this position in the log: an earlier one, if it was repeated."""

    position: Position
    result: Result


class LogFold:
    """A state and the answers that were given, both of which follow a log."""

    def __init__(self, state: ControlState, answers: KeptAnswers) -> None:
        self.state = state
        self.answers = answers

    def fold(self, position: Position, body: bytes, entry: LogEntry | None = None) -> Folded:
        """Fold an entry. Whoever has read its body may give what was read."""
        command, key, leadership, request = read_body(body) if entry is None else entry
        self.answers.forget(position)
        if leadership is not None and leadership != self.state.leadership:
            reason = "another process leads the control plane by now"
            return Folded(position, CommandRefused(NotLeading(reason, field="leadership", value=leadership)))
        if key is not None:
            try:
                kept = self.answers.repeated(key, request)
            except KeyConflict as error:
                return Folded(position, CommandRefused(error))
            if kept is not None:
                return Folded(Position(kept.position), kept.result)
        result = self.state.apply(position, command)
        if position == FIRST_POSITION and isinstance(result, CommandRefused):
            raise result.error
        if key is not None:
            self.answers.keep(position, key, request, result)
        return Folded(position, result)


def entry_of(command: Command, key: str | None = None, leadership: int | None = None) -> LogEntry:
    """A command and its key as an entry; with a leadership, as one of the process that leads."""
    request = f'{{"command":{written(command)},"key":{"null" if key is None else canonical(key)}}}'
    return LogEntry(command, key, leadership, request.encode())


def log_body(command: Command, key: str | None = None, leadership: int | None = None) -> bytes:
    return entry_of(command, key, leadership).body


def read_body(body: bytes) -> LogEntry:
    """An entry from what the log has of it."""
    before, _, request = body.rpartition(b"\n")  # neither has a line break in its JSON
    data = from_json(request)
    command = command_from_json(data["command"])
    if not before:
        return LogEntry(command, data["key"], None, request)
    known = from_json(before)
    if "covered" in known and isinstance(command, Register):
        object.__setattr__(command, "covered", CoveredFilter.from_json(known["covered"]))
    return LogEntry(command, data["key"], known.get("leadership"), request)
