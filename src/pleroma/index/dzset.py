"""Sets of cells: prefix-free and sibling-merged, so that each region of the event space has exactly one form.

A region is kept as the sorted bounds of its maximal intervals on the line of 2**112 atoms; its members are the largest
dz that fit into them. Set algebra is then a sweep over two sorted lists, whatever the lengths involved.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from pleroma.errors import DzError
from pleroma.index.coarsening import fewest
from pleroma.index.dz import MAX_LENGTH, ROOT, Dz

_ATOMS = 1 << MAX_LENGTH
_new = int.__new__
_CODE_BITS = MAX_LENGTH + 1
"""The bits of the integer that the longest dz is."""
PACKED_BYTES = 16
"""How many bytes a packed dz takes. In the order of these bytes, a dz follows right after those that cover it."""
Bounds = tuple[int, ...]  # start, end, start, end, ... strictly increasing


class DzSet:
    """An immutable region; iterates over its members in the order of the line."""

    __slots__ = ("_known_bounds", "_known_members", "_packed")

    def __init__(self, members: Iterable[Dz] = ()) -> None:
        placed = sorted([(dz.start, dz.end, dz) for dz in members])
        self._known_bounds: Bounds | None = _merge((start, end) for start, end, _ in placed)
        # disjoint cells without siblings among them are the members already: none of them fits into a larger one
        apart = all(end <= start and a ^ b != 1 for (_, end, a), (start, _, b) in pairwise(placed))
        self._known_members: tuple[Dz, ...] | None = tuple([dz for _, _, dz in placed]) if apart else None
        self._packed: bytes | None = None

    @classmethod
    def parse(cls, *bits: str) -> DzSet:
        return cls(map(Dz.parse, bits))

    @classmethod
    def of_cells(cls, codes: Iterable[int]) -> DzSet:
        """The region of cells that do not overlap, given as the integers that dz are."""
        cells: list[int] = []
        for _, code in sorted([(code << _CODE_BITS - code.bit_length(), code) for code in codes]):
            merged = code
            while cells and merged & 1 and cells[-1] == merged ^ 1:
                cells.pop()
                merged >>= 1
            cells.append(merged)
        return cls._of_members(_dz(cells))

    @classmethod
    def of_spans(cls, spans: Iterable[tuple[int, int]]) -> DzSet:
        """The region of these intervals of atoms, in the order of the line."""
        return cls._of(_merge(spans))

    @classmethod
    def _of_members(cls, members: tuple[Dz, ...]) -> DzSet:
        """The members are in their order. Bounds are found when somebody asks."""
        made = cls.__new__(cls)
        made._known_members = members
        made._known_bounds = made._packed = None
        return made

    @classmethod
    def _of(cls, bounds: Bounds) -> DzSet:
        made = cls.__new__(cls)
        made._known_bounds = bounds
        made._known_members = made._packed = None
        return made

    def pack(self) -> bytes:
        """The members as bytes, in their order: for each, its first atom (14 bytes) and its length (2 bytes)."""
        if self._packed is not None:
            return self._packed
        return b"".join(
            [
                ((dz << _CODE_BITS - (size := dz.bit_length())) - _ATOMS << 16 | size - 1).to_bytes(PACKED_BYTES)
                for dz in self.members
            ]
        )

    @classmethod
    def unpack(cls, data: bytes) -> DzSet:
        """The region that `pack` wrote. It stays packed, a tenth of the size, and is read anew whenever it is used."""
        if len(data) % PACKED_BYTES:
            raise DzError(f"{len(data)} bytes are no packed region", field="region", value=len(data))
        made = cls.__new__(cls)
        made._known_bounds = made._known_members = None
        made._packed = data
        return made

    def slim(self) -> None:
        """Stay packed from now on. It makes no difference but of time and space."""
        if self._packed is None:
            self._packed = self.pack()
        self._known_bounds = self._known_members = None

    @property
    def _bounds(self) -> Bounds:
        if self._known_bounds is None:
            found = _merge((dz.start, dz.end) for dz in self.members)
            if self._packed is not None:  # to stay small
                return found
            self._known_bounds = found
        return self._known_bounds

    @property
    def members(self) -> tuple[Dz, ...]:
        if self._packed is not None:
            return tuple(map(unpacked, _pieces(self._packed)))
        if self._known_members is None:
            self._known_members = tuple(dz for start, end in self.spans for dz in _largest(start, end))
        return self._known_members

    def __iter__(self) -> Iterator[Dz]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self._packed) // PACKED_BYTES if self._packed is not None else len(self.members)

    def __bool__(self) -> bool:
        return bool(self._packed) if self._packed is not None else bool(self._known_bounds or self._known_members)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DzSet) and self._bounds == other._bounds

    def __hash__(self) -> int:
        return hash(self._bounds)

    def __str__(self) -> str:
        return "{" + ", ".join(map(str, self)) + "}"

    def __repr__(self) -> str:
        return f"DzSet.parse({', '.join(repr(str(dz)) for dz in self)})"

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The maximal intervals of atoms: the first atom of each, and the one after its last."""
        bounds = self._bounds
        return list(zip(bounds[::2], bounds[1::2], strict=True))

    @property
    def atoms(self) -> int:
        """The size of the region, exactly."""
        return sum(self._bounds[1::2]) - sum(self._bounds[::2])

    @property
    def volume(self) -> float:
        """The share of the event space."""
        return self.atoms / _ATOMS

    @property
    def longest(self) -> int:
        if self._packed:
            return max(self._packed[PACKED_BYTES - 1 :: PACKED_BYTES])
        return max(map(int.bit_length, self), default=1) - 1

    def covers(self, other: Dz | DzSet) -> bool:
        """Whether all of the other lies in this region."""
        bounds = self._bounds
        for start, end in [(other.start, other.end)] if isinstance(other, Dz) else other.spans:
            place = bisect_right(bounds, start)
            if place % 2 == 0 or end > bounds[place]:
                return False
        return True

    def overlaps(self, other: Dz | DzSet) -> bool:
        if isinstance(other, Dz):
            bounds = self._bounds
            place = bisect_right(bounds, other.start)
            return place % 2 == 1 or (place < len(bounds) and bounds[place] < other.end)
        return bool(self & other)

    def __or__(self, other: DzSet) -> DzSet:
        return self._combine(other, lambda a, b: a or b)

    def __and__(self, other: DzSet) -> DzSet:
        mine, its = self._bounds, other._bounds
        short, long = (mine, its) if len(mine) < len(its) else (its, mine)
        bounds: list[int] = []
        for start, end in zip(short[::2], short[1::2], strict=True):
            first, last = bisect_right(long, start), bisect_left(long, end)
            if first % 2:
                bounds.append(start)
            bounds += long[first:last]
            if last % 2:
                bounds.append(end)
        return DzSet._of(tuple(bounds))

    def __sub__(self, other: DzSet) -> DzSet:
        return self._combine(other, lambda a, b: a and not b)

    def _combine(self, other: DzSet, keep: Callable[[bool, bool], bool]) -> DzSet:
        mine, its = self._bounds, other._bounds  # of a packed region they are computed whenever one asks
        bounds: list[int] = []
        i = j = 0
        inside = False
        for bound in sorted({*mine, *its}):
            i += i < len(mine) and mine[i] == bound
            j += j < len(its) and its[j] == bound
            if keep(i % 2 == 1, j % 2 == 1) != inside:
                inside = not inside
                bounds.append(bound)
        return DzSet._of(tuple(bounds))

    def under(self, prefix: Dz) -> DzSet:
        """This region inside a cell: each member behind the bits of the prefix."""
        place = prefix - 1  # for the leading 1 of a dz is added to the last bit of the prefix
        return DzSet._of_members(_dz([(place << dz.bit_length() - 1) + dz for dz in self.members]))

    def inside(self, prefix: Dz) -> DzSet:
        """The part of this region in a cell, without the bits of the prefix: the reverse of `under`."""
        bounds = (self & DzSet([prefix]))._bounds
        return DzSet._of(tuple([bound - prefix.start << prefix.length for bound in bounds]))

    def truncate(self, length: int) -> DzSet:
        """The least region around this one whose members have at most `length` bits."""
        if length < 0:
            raise DzError(f"a length cannot be {length}", field="length", value=length)
        grain = 1 << max(MAX_LENGTH - length, 0)
        return DzSet._of(_merge((start // grain * grain, -(-end // grain) * grain) for start, end in self.spans))

    def coarsen(self, max_members: int) -> DzSet:
        """The smallest region around this one that has at most `max_members` members."""
        if max_members < 1 and self:
            raise DzError(f"a region cannot be covered by {max_members} members", field="members", value=max_members)
        members = self.members
        if len(members) <= max_members:
            return self
        cells, child = _joins(members)
        kept = fewest([1 << MAX_LENGTH - dz.length for dz in cells], child, max_members)
        return DzSet([cells[number] for number in kept])


def _dz(codes: Sequence[int]) -> tuple[Dz, ...]:
    """Integers as the dz that they are; refuses what is too long, or none, without looking at each twice."""
    if codes and not 0 < min(codes) <= max(codes) < 1 << _CODE_BITS:
        return tuple(map(Dz, codes))  # names the one that is none
    return tuple([_new(Dz, code) for code in codes])


def packed(dz: Dz) -> bytes:
    """One dz as `DzSet.pack` writes it."""
    return (dz.start << 16 | dz.length).to_bytes(PACKED_BYTES)


def unpacked(data: bytes) -> Dz:
    number = int.from_bytes(data)
    length = number & 0xFFFF
    return Dz((_ATOMS | number >> 16) >> MAX_LENGTH - length)


def _pieces(data: bytes) -> Iterator[bytes]:
    return (data[at : at + PACKED_BYTES] for at in range(0, len(data), PACKED_BYTES))


def _joins(members: tuple[Dz, ...]) -> tuple[list[Dz], list[int]]:
    """The binary tree whose leaves are the members, as `fewest` takes it: its cells, and the child of each."""
    cells: list[Dz] = []
    child: list[int] = []
    spans = [(0, len(members))]
    for begin, end in spans:  # which grows on the way
        cell = _join(members[begin], members[end - 1])
        cells.append(cell)
        child.append(0 if end - begin == 1 else len(spans))
        if end - begin > 1:
            middle = bisect_left(members, cell.start + cell.end >> 1, begin, end, key=lambda dz: dz.start)
            spans += [(begin, middle), (middle, end)]
    return cells, child


def _join(first: Dz, last: Dz) -> Dz:
    """The longest dz that covers both."""
    a, b = int(first), int(last)
    a >>= max(first.length - last.length, 0)
    b >>= max(last.length - first.length, 0)
    return Dz(a >> (a ^ b).bit_length())


def _merge(spans: Iterable[tuple[int, int]]) -> Bounds:
    """Sorted spans as strictly increasing bounds."""
    bounds: list[int] = []
    for start, end in spans:
        if bounds and start <= bounds[-1]:
            if end > bounds[-1]:
                bounds[-1] = end
        else:
            bounds += (start, end)
    return tuple(bounds)


def _largest(start: int, end: int) -> Iterator[Dz]:
    """The span as the fewest dz: always the largest cell that begins at `start` and fits."""
    while start < end:
        size = min(start & -start or _ATOMS, 1 << (end - start).bit_length() - 1)
        yield Dz(_ATOMS + start >> size.bit_length() - 1)
        start += size


EVERYTHING = DzSet([ROOT])
NOTHING = DzSet()

__all__ = ["EVERYTHING", "NOTHING", "DzSet"]
