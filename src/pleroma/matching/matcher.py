"""The one interface of matching: subscriptions come and go, events ask which of them want it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pleroma.arrays.types import Ints
from pleroma.matching.constraint_table import Assignments, Constraint, Occurrences


class Miss(NamedTuple):
    """A constraint that an event does not satisfy; `value` is None where it has none."""

    constraint: Constraint
    value: float | None


class PartStatistics(NamedTuple):
    structure: str
    why: str
    subscriptions: int
    removed: int
    memory: int


@dataclass(frozen=True, slots=True)
class MatcherStatistics:
    subscriptions: int
    constraints: int
    memory: int
    """Bytes in all."""
    newcomers: int
    """Not yet in a structure of their own."""
    parts: tuple[PartStatistics, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """The ids that want each event of a batch."""

    ids: Ints
    ends: Ints

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, event: int) -> Ints:
        event = range(len(self))[event]
        return self.ids[self.ends[event - 1] if event else 0 : self.ends[event]]

    def __iter__(self) -> Iterator[Ints]:
        return (self[event] for event in range(len(self)))


class Matcher(Protocol):
    """Exactly the subscriptions whose every constraint an event satisfies, in no particular order."""

    def __len__(self) -> int: ...

    def __contains__(self, subscription: int) -> bool: ...

    def add(self, subscription: int, constraints: Sequence[Constraint], interface: int = 0) -> None: ...

    def remove(self, subscription: int) -> None: ...

    def match(self, event: Assignments) -> Ints: ...

    def match_batch(self, events: Occurrences, threads: int = 1) -> Matches: ...

    def explain(self, subscription: int, event: Assignments) -> list[Miss]:
        """Why it does not match: nothing, if it does."""

    def statistics(self) -> MatcherStatistics: ...
