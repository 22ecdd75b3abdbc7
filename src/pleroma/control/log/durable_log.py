"""The log as a controller uses it: accepted entries in order, and snapshots of the state that follows from them.

`SqliteLog` is a file of one process. `EtcdLog` is shared: several processes append to it and follow it, and an entry is
durable when a majority of its members has it. An entry is bytes; what it means is decided by the fold (`LoggedState`),
so that all followers of a log decide alike, whoever appended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NewType, Protocol

from pleroma.errors import LogError

MAX_BODY_BYTES = 16 * 2**20

Position = NewType("Position", int)
"""The place of an entry in the log: 1, 2, 3 and so on. 0 is the place before all of them."""

LOG_START = Position(0)


def check_body(body: bytes) -> None:
    """Refuse an entry that is larger than any log takes."""
    if len(body) > MAX_BODY_BYTES:
        reason = f"{len(body)} bytes are more than the {MAX_BODY_BYTES} that an entry holds"
        raise LogError(reason, field="body", value=len(body))


@dataclass(frozen=True, slots=True)
class LogSnapshot:
    """The state after the entry at this position."""

    position: Position
    state: bytes


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a restart begins from. `damaged` has the positions of newer snapshots that could not be used."""

    snapshot: LogSnapshot | None
    damaged: tuple[Position, ...]

    @property
    def position(self) -> Position:
        """The last entry that the snapshot holds: the restart reads on behind it."""
        return self.snapshot.position if self.snapshot else LOG_START


class Log(Protocol):
    """Any thread may call its methods. One call at a time is carried out, but for `wait_beyond`: it delays no other."""

    is_shared: bool
    """Whether other processes append to it, too."""

    @property
    def first(self) -> Position:
        """The position of the first entry that is kept."""

    @property
    def head(self) -> Position:
        """The position of the last entry."""

    def append(self, bodies: Sequence[bytes]) -> Position:
        """Append entries one behind the other, durably, all or none; returns the position of the first.

        After an error it may not be known whether they are in the log: they may turn up in `read` later.
        """

    def read(self, after: int = LOG_START) -> Iterator[tuple[Position, bytes]]:
        """The entries after a position, in order. Few at a time are in memory, and others may append meanwhile."""

    def wait_beyond(self, position: Position, seconds: float) -> Position:
        """Wait until the log goes beyond a position, at most so long; how far it goes. Closing the log ends it."""

    @property
    def following_failure(self) -> LogError | None:
        """Why what others append cannot be heard of at the moment, as far as somebody has waited for it."""

    def save_snapshot(self, position: int, state: bytes) -> None:
        """Keep the state after the entry at this position, durably, and the newest intact snapshot before it."""

    def latest_snapshot(self) -> Recovery:
        """The newest snapshot that is intact, if there is one."""

    def compact(self, max_rows: int = 1000) -> int:
        """Drop some entries before the older of two snapshots, and tell how many: 0 means that nothing is left to drop.

        Entries go in steps, so that appends find their turn in between.
        """

    def checkpoint(self) -> None:
        """Leave no unfinished business of the storage, now that a snapshot was saved."""

    def close(self) -> None: ...
