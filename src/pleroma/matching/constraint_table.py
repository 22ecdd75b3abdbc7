"""Subscriptions and events as flat arrays: what every matching structure reads.

A subscription is a run of constraints (attribute, low, high), each of which wants a value in `[low, high)`; an event is
a run of assignments (attribute, value) and may lack any attribute. Attributes are small numbers. Nothing here is ever
changed once made, so that any number of threads may read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pleroma.arrays.types import Floats, Ints, Ints32, Marks
from pleroma.errors import ContentError
from pleroma.matching.row_kernels import ConstraintRows, EventRun, permuted

MAX_ATTRIBUTES = 1 << 16
"""Attributes are numbered below this."""


class Constraint(NamedTuple):
    """The attribute's value lies in `[low, high)`."""

    attribute: int
    low: float
    high: float


Assignments = Mapping[int, float]
"""An event: the values of the attributes that it has."""


@dataclass(frozen=True, slots=True, eq=False)
class ConstraintTable:
    """Row by row: whose it is (`ids`), where it came from (`interfaces`), and its constraints, from `first[row]` on."""

    ids: Ints
    interfaces: Ints32
    first: Ints
    attribute: Ints32
    low: Floats
    high: Floats

    @classmethod
    def of(
        cls, ids: ArrayLike, first: ArrayLike, attribute: ArrayLike, low: ArrayLike, high: ArrayLike,
        interfaces: ArrayLike | None = None,
    ) -> ConstraintTable:  # fmt: skip
        """From arrays of the outside world, all checked."""
        names = np.asarray(ids, np.int64)
        sources = np.zeros(len(names), np.int32) if interfaces is None else np.asarray(interfaces, np.int32)
        made = cls(
            names,
            sources,
            np.asarray(first, np.int64),
            np.asarray(attribute, np.int32),
            np.asarray(low, np.float64),
            np.asarray(high, np.float64),
        )
        made._check()
        return made

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[int, Sequence[Constraint], int]]) -> ConstraintTable:
        """From (id, constraints, interface) one by one."""
        listed = list(rows)
        flat = [each for _, constraints, _ in listed for each in constraints]
        return cls.of(
            [row[0] for row in listed],
            np.concatenate(([0], np.cumsum([len(row[1]) for row in listed], dtype=np.int64))),
            [each[0] for each in flat],
            [each[1] for each in flat],
            [each[2] for each in flat],
            [row[2] for row in listed],
        )

    @classmethod
    def joined(cls, tables: Sequence[ConstraintTable]) -> ConstraintTable:
        """One after the other."""
        starts = np.cumsum([0, *(table.constraints for table in tables)])
        firsts = [table.first[:-1] + start for table, start in zip(tables, starts, strict=False)]
        return cls(
            np.concatenate([table.ids for table in tables]),
            np.concatenate([table.interfaces for table in tables]),
            np.concatenate([*firsts, starts[-1:]]),
            np.concatenate([table.attribute for table in tables]),
            np.concatenate([table.low for table in tables]),
            np.concatenate([table.high for table in tables]),
        )

    def _check(self) -> None:
        if self.first.shape != (len(self.ids) + 1,) or self.first[0] != 0 or (np.diff(self.first) < 0).any():
            raise ContentError("rows begin at 0 and follow one another", field="first")
        if self.interfaces.shape != self.ids.shape:
            raise ContentError("one interface for each subscription", field="interfaces")
        for name, array in (("attribute", self.attribute), ("low", self.low), ("high", self.high)):
            if array.shape != (self.first[-1],):
                raise ContentError(f"{array.shape} values for {self.first[-1]} constraints", field=name)
        check_attributes(self.attribute)
        empty = np.flatnonzero(~(self.low < self.high))
        if empty.size:
            bounds = float(self.low[empty[0]]), float(self.high[empty[0]])
            raise ContentError("a constraint wants a range [low, high) with something in it", field="low", value=bounds)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def constraints(self) -> int:
        return len(self.attribute)

    @property
    def width(self) -> int:
        """How many attributes there may be: one more than the largest number."""
        return int(self.attribute.max()) + 1 if self.constraints else 0

    @property
    def unconstrained(self) -> Ints32:
        """The rows without constraints, which every event matches."""
        return np.flatnonzero(np.diff(self.first) == 0).astype(np.int32)

    @property
    def nbytes(self) -> int:
        arrays = (self.ids, self.interfaces, self.first, self.attribute, self.low, self.high)
        return sum(array.nbytes for array in arrays)

    def row(self, row: int) -> tuple[Constraint, ...]:
        part = slice(int(self.first[row]), int(self.first[row + 1]))
        columns = (self.attribute[part].tolist(), self.low[part].tolist(), self.high[part].tolist())
        return tuple(map(Constraint, *columns))

    def rows(self, dead: Marks) -> ConstraintRows:
        """The constraints as kernels take them, with the rows that have left."""
        return self.first, self.attribute, self.low, self.high, dead

    def take(self, rows: Ints) -> ConstraintTable:
        """These rows, in this order."""
        first, attribute, low, high = permuted(self.first, self.attribute, self.low, self.high, rows)
        return ConstraintTable(self.ids[rows], self.interfaces[rows], first, attribute, low, high)


@dataclass(frozen=True, slots=True, eq=False)
class Occurrences:
    """Many events: the assignments of event `e` are those from `first[e]` on."""

    first: Ints
    attribute: Ints32
    value: Floats

    @classmethod
    def of(cls, first: ArrayLike, attribute: ArrayLike, value: ArrayLike) -> Occurrences:
        made = cls(np.asarray(first, np.int64), np.asarray(attribute, np.int32), np.asarray(value, np.float64))
        if not len(made.first) or made.first[0] != 0 or (np.diff(made.first) < 0).any():
            raise ContentError("events begin at 0 and follow one another", field="first")
        if not made.first[-1] == len(made.attribute) == len(made.value):
            raise ContentError("one value for each attribute", field="value")
        made._check()
        number = np.repeat(np.arange(len(made)), np.diff(made.first))
        places = np.sort(number * MAX_ATTRIBUTES + made.attribute)
        twice = np.flatnonzero(places[1:] == places[:-1])
        if twice.size:
            wrong = int(places[twice[0]]) % MAX_ATTRIBUTES
            raise ContentError("an event has one value for an attribute", field="attribute", value=wrong)
        return made

    @classmethod
    def from_events(cls, events: Iterable[Assignments]) -> Occurrences:
        listed = list(events)
        first = np.array([0, *accumulate(map(len, listed))], np.int64)
        size = int(first[-1])
        attribute = np.fromiter((a for event in listed for a in event), np.int32, size)
        value = np.fromiter((v for event in listed for v in event.values()), np.float64, size)
        made = cls(first, attribute, value)
        made._check()
        return made

    def _check(self) -> None:
        check_attributes(self.attribute)
        if not (self.value < np.inf).all():
            wrong = float(self.value[~(self.value < np.inf)][0])
            raise ContentError("a value is a number below infinity", field="value", value=wrong)

    @classmethod
    def dense(cls, points: ArrayLike) -> Occurrences:
        """Events that have all attributes: one row each, one column per attribute."""
        values = np.ascontiguousarray(points, np.float64)
        events, width = values.shape
        attribute = np.tile(np.arange(width, dtype=np.int32), events)
        made = cls(np.arange(events + 1) * width, attribute, values.ravel())
        made._check()
        return made

    def run(self, begin: int, end: int) -> EventRun:
        """Some of the events, one after the other, as kernels take them."""
        return self.first, self.attribute, self.value, begin, end

    def __len__(self) -> int:
        return len(self.first) - 1

    def __iter__(self) -> Iterator[dict[int, float]]:
        for begin, end in zip(self.first[:-1].tolist(), self.first[1:].tolist(), strict=True):
            yield dict(zip(self.attribute[begin:end].tolist(), self.value[begin:end].tolist(), strict=True))


def check_attributes(numbers: Ints32) -> None:
    if not (numbers.view(np.uint32) < MAX_ATTRIBUTES).all():  # a negative one is larger
        wrong = numbers.min() if numbers.min() < 0 else numbers.max()
        raise ContentError(
            f"attributes are numbered from 0 to {MAX_ATTRIBUTES - 1}", field="attribute", value=int(wrong)
        )
