"""What an entry of the log does to the state: its command is carried out, unless it repeats one that was before.

Whoever follows a log folds it in this way, so all come to the same state and to the same answers. Where several
processes share a log, an entry may have a line before its request: under which leadership it was appended, and what is
known of its filter. If another process leads by then, the entry is refused, so a process that was paused and goes on
does no harm.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, NamedTuple

from pleroma.control.control_state import ControlState
from pleroma.control.kept_answers import KeptAnswers
from pleroma.control.log.durable_log import Position
from pleroma.control.state.command import Command, CoveredFilter, Register, canonical, command_from_json, written
from pleroma.control.state.result import CommandRefused, Result
from pleroma.errors import KeyConflict, NotLeading

FIRST_POSITION = 1
"""Where a log says for which network, and with which settings, it was begun."""


class Folded(NamedTuple):
    """What became of a request, which stands at this position in the log: an earlier one, if it was repeated."""

    position: Position
    result: Result


class LogFold:
    """A state and the answers that were given, both of which follow a log."""

    def __init__(self, state: ControlState, answers: KeptAnswers) -> None:
        self.state = state
        self.answers = answers

    def fold(self, position: Position, body: bytes, command: Command | None = None, key: str | None = None) -> Folded:
        """Fold an entry. Whoever has read its body may give command and key."""
        if command is None:
            key, command = read_body(body)
        self.answers.forget(position)
        known, request = split_body(body)
        leadership = known.get("leadership")
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


def log_body(command: Command, key: str | None = None, leadership: int | None = None) -> bytes:
    """A command and its key as the body of a log entry; with a leadership, that of the process which leads."""
    request = f'{{"command":{written(command)},"key":{"null" if key is None else canonical(key)}}}'
    known: dict[str, Any] = {} if leadership is None else {"leadership": leadership}
    if isinstance(command, Register) and command.covered is not None:
        known["covered"] = command.covered.to_json()
    return f"{canonical(known)}\n{request}".encode() if known else request.encode()


def read_body(body: bytes) -> tuple[str | None, Command]:
    """The key and the command of a log entry."""
    known, request = split_body(body)
    data = json.loads(request)
    command = command_from_json(data["command"])
    if "covered" in known and isinstance(command, Register):
        command = replace(command, covered=CoveredFilter.from_json(known["covered"]))
    return data["key"], command


def split_body(body: bytes) -> tuple[dict[str, Any], bytes]:
    """What the process that appended an entry has said besides, and the request, which may come again elsewhere."""
    before, _, request = body.rpartition(b"\n")  # neither has a line break in its JSON
    return (json.loads(before) if before else {}), request
