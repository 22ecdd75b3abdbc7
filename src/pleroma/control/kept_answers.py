"""The answers to requests that may be sent again.

The log knows which keys it has seen, but not what was answered. The answers are kept here for as long as the log keeps
the keys, and as text: most of them are never read again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pleroma.errors
from pleroma.control.log.sqlite_log import REMEMBERED_POSITIONS
from pleroma.control.state.command import canonical
from pleroma.control.state.result import CommandRefused, Done, Result
from pleroma.errors import ControlError, PleromaError

KeptAnswer = tuple[int, tuple[str, str]]
"""The position of a request, its key, and the answer as JSON."""


class KeptAnswers:
    """The answers of the last `remember` positions, by position and by key."""

    def __init__(self, remember: int = REMEMBERED_POSITIONS) -> None:
        self._remember = remember
        self._by_position: dict[int, tuple[str, str]] = {}  # key and answer, in the order of the log
        self._position: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._by_position)

    def __contains__(self, key: str) -> bool:
        return key in self._position

    def keep(self, position: int, key: str, result: Result) -> None:
        self._by_position[position] = key, canonical(_to_json(result))
        self._position[key] = position
        while (oldest := next(iter(self._by_position))) <= position - self._remember:
            forgotten, _ = self._by_position.pop(oldest)
            if self._position.get(forgotten) == oldest:
                del self._position[forgotten]

    def at(self, position: int) -> Result | None:
        """The answer to the request at a position; None if it is forgotten."""
        kept = self._by_position.get(position)
        return None if kept is None else _from_json(json.loads(kept[1]))

    def items(self) -> list[KeptAnswer]:
        """What `answer_line` makes a line of, for each answer."""
        return list(self._by_position.items())

    @classmethod
    def read(cls, lines: Iterable[str], remember: int = REMEMBERED_POSITIONS) -> KeptAnswers:
        made = cls(remember)
        for line in lines:
            position, key, answer = line.split("\t")
            made._by_position[int(position)] = name, _ = json.loads(key), answer
            made._position[name] = int(position)
        return made


def answer_line(kept: KeptAnswer) -> str:
    """The position, the key and the answer, with tabs between."""
    at, (key, answer) = kept
    return f"{at}\t{canonical(key)}\t{answer}"


def _to_json(result: Result) -> dict[str, Any]:
    return {"done": result.value} if isinstance(result, Done) else {"refused": error_to_json(result.error)}


def _from_json(data: Mapping[str, Any]) -> Result:
    return Done(data["done"]) if "done" in data else CommandRefused(error_from_json(data["refused"]))


def error_to_json(error: PleromaError) -> dict[str, Any]:
    """All fields of an error. A value that JSON cannot express is described."""
    try:
        value = json.loads(canonical(error.value))
    except ControlError:
        value = pleroma.errors.shown(error.value)
    more = {"allowed": error.allowed} if isinstance(error, pleroma.errors.NotAllowed) else {}
    return {"class": type(error).__name__, "reason": error.reason, "field": error.field, "value": value, **more}


def error_from_json(data: Mapping[str, Any]) -> PleromaError:
    kind = getattr(pleroma.errors, data["class"], ControlError)
    error: PleromaError = kind.__new__(kind, data["reason"])  # whatever arguments the class takes
    error.__dict__.update({name: value for name, value in data.items() if name != "class"})
    return error
