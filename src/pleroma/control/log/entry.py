"""Entries of the log, and what becomes of an entry that is appended.

An entry is a body and, for a request that may be sent again, a key. The three outcomes are three types, so that a
caller who distinguishes them with `match` cannot take a refusal for an acceptance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

from pleroma.errors import LogError

MAX_KEY_CHARACTERS = 200
MAX_BODY_BYTES = 16 * 2**20

Position = NewType("Position", int)
"""The place of an entry in the log: 1, 2, 3 and so on. 0 is the place before all of them."""

LOG_START = Position(0)


@dataclass(frozen=True, slots=True)
class Entry:
    """A body, and the key by which a repetition of it is recognised."""

    body: bytes
    key: str | None = None

    def __post_init__(self) -> None:
        if len(self.body) > MAX_BODY_BYTES:
            reason = f"{len(self.body)} bytes are more than the {MAX_BODY_BYTES} that an entry holds"
            raise LogError(reason, field="body", value=len(self.body))
        if self.key is None:
            return
        if not 0 < len(self.key) <= MAX_KEY_CHARACTERS:
            reason = f"a key has 1 to {MAX_KEY_CHARACTERS} characters, not {len(self.key)}"
            raise LogError(reason, field="key", value=self.key)
        try:
            self.key.encode()
        except UnicodeEncodeError:
            raise LogError("the key is not valid Unicode", field="key", value=self.key) from None


@dataclass(frozen=True, slots=True)
class Appended:
    """The entry is new and now in the log."""

    position: Position


@dataclass(frozen=True, slots=True)
class Repeated:
    """The log had this key with this very body already, at this position. Nothing was appended."""

    position: Position


@dataclass(frozen=True, slots=True)
class Conflict:
    """The log has this key with another body, at this position. Nothing was appended."""

    position: Position


Outcome = Appended | Repeated | Conflict
