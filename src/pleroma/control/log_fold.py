"""What an entry of the log does to the state: its command is carried out, unless it repeats one that was before.

Whoever follows a log folds it in this way, so all come to the same state and to the same answers.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from pleroma.control.control_state import ControlState
from pleroma.control.kept_answers import KeptAnswers
from pleroma.control.log.durable_log import Position
from pleroma.control.state.command import Command, canonical, command_from_json, written
from pleroma.control.state.result import CommandRefused, Result
from pleroma.errors import KeyConflict

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
        if key is not None:
            try:
                kept = self.answers.repeated(key, body)
            except KeyConflict as error:
                return Folded(position, CommandRefused(error))
            if kept is not None:
                return Folded(Position(kept.position), kept.result)
        result = self.state.apply(position, command)
        if position == FIRST_POSITION and isinstance(result, CommandRefused):
            raise result.error
        if key is not None:
            self.answers.keep(position, key, body, result)
        return Folded(position, result)


def log_body(command: Command, key: str | None = None) -> bytes:
    """A command and its key as the body of a log entry."""
    return f'{{"command":{written(command)},"key":{"null" if key is None else canonical(key)}}}'.encode()


def read_body(body: bytes) -> tuple[str | None, Command]:
    """The key and the command of a log entry."""
    data = json.loads(body)
    return data["key"], command_from_json(data["command"])
