"""What the matching structures have in common: each is built from a table of constraints once and only read after."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Protocol, Self

from pleroma.arrays.types import Ints, Ints32, Marks
from pleroma.matching.constraint_table import ConstraintTable, Occurrences


class MatchedRows(NamedTuple):
    """The rows that match, event after event; those of event `e` end before `ends[e]`."""

    rows: Ints32
    ends: Ints


class Structure(Protocol):
    name: ClassVar[str]

    @property
    def table(self) -> ConstraintTable:
        """The subscriptions, in the order of rows that suits the structure."""

    @property
    def nbytes(self) -> int:
        """The size of all arrays, the table's among them."""

    @classmethod
    def build(cls, table: ConstraintTable) -> Self: ...

    def search(self, events: Occurrences, begin: int, end: int, dead: Marks) -> MatchedRows:
        """Exactly the rows not `dead` whose every constraint the event satisfies, for events `begin` to `end`."""
