"""A discretized constraint, or value, as a short string of bits (Zhao and Wu 2011, III-E.2), to be sent along.

A constraint's cells grow outwards from one or two neighbours at its first level: at every level below there is or is
not one more on the left, and on the right. So two bits a level are enough behind the first cells, and one bit a level
for a value, which only moves into a left or a right half.
"""

from __future__ import annotations

from collections.abc import Sequence

from pleroma.errors import IndexingError
from pleroma.matching.tama.discretization import LevelCell, check_level

LEVEL_BITS = 6


def encode_cells(cells: Sequence[LevelCell], level: int) -> bytes:
    """Cells as `discretize` gives them, for a table with this last level."""
    check_level(level)
    if not cells or cells != sorted(cells) or cells[-1].level > level:
        raise IndexingError("these are not the cells of a range", field="cells", value=cells)
    start = cells[0].level
    outer = [cell.number for cell in cells if cell.level == start]
    bits = _Bits()
    bits.add(start, LEVEL_BITS)
    bits.add(len(outer) - 1, 1)
    for number in outer:
        bits.add(number, start)
    left, right = outer[0], outer[-1]
    below = set(cells[len(outer) :])
    for each in range(start + 1, level + 1):
        left, right = 2 * left, 2 * right + 1
        for side, number in ((-1, left - 1), (1, right + 1)):
            more = LevelCell(each, number) in below
            bits.add(more, 1)
            if more:
                below.discard(LevelCell(each, number))
                left, right = (number, right) if side < 0 else (left, number)
    if below:
        raise IndexingError("these are not the cells of a range", field="cells", value=cells)
    return bits.framed()


def decode_cells(data: bytes) -> list[LevelCell]:
    bits = _Bits.unframed(data)
    start = bits.take(LEVEL_BITS)
    check_level(start)
    outer = [LevelCell(start, 0)] * (bits.take(1) + 1)
    cells = [LevelCell(start, bits.take(start)) for _ in outer]
    left, right = cells[0].number, cells[-1].number
    level = start
    while bits.left:
        level, left, right = level + 1, 2 * left, 2 * right + 1
        if bits.take(1):
            left -= 1
            cells.append(LevelCell(level, left))
        if bits.take(1):
            right += 1
            cells.append(LevelCell(level, right))
    check_level(level)
    neighbours = cells[len(outer) - 1].number - cells[0].number == len(outer) - 1
    if not neighbours or not 0 <= left <= right < 1 << level:
        raise IndexingError("these bits are not the cells of a range", field="data", value=data)
    return cells


def encode_value(cell: int, first_level: int, level: int) -> bytes:
    """The cells, from `first_level` to `level`, around a value whose cell at `level` is given."""
    check_level(level)
    if not 0 <= first_level <= level or not 0 <= cell < 1 << level:
        raise IndexingError(f"cell {cell} is not at level {level}", field="cell", value=cell)
    bits = _Bits()
    bits.add(first_level, 8)
    bits.add(cell >> (level - first_level), 32)
    bits.add(cell & (1 << (level - first_level)) - 1, level - first_level)
    return bits.framed()


def decode_value(data: bytes) -> list[LevelCell]:
    bits = _Bits.unframed(data)
    cells = [LevelCell(bits.take(8), bits.take(32))]
    while bits.left:
        level, number = cells[-1]
        cells.append(LevelCell(level + 1, 2 * number + bits.take(1)))
    return cells


class _Bits:
    """Bits behind a byte that says how many there are."""

    def __init__(self, word: int = 0, left: int = 0) -> None:
        self.word = word
        self.left = left

    @classmethod
    def unframed(cls, data: bytes) -> _Bits:
        if not data or len(data) != 1 + (data[0] + 7) // 8:
            raise IndexingError("the bits are not as many as their first byte says", field="data", value=data)
        return cls(int.from_bytes(data[1:]) >> -data[0] % 8, data[0])

    def add(self, value: int, size: int) -> None:
        self.word = self.word << size | value
        self.left += size

    def take(self, size: int) -> int:
        if size > self.left:
            raise IndexingError("the bits end too early", field="data", value=self.left)
        self.left -= size
        return self.word >> self.left & (1 << size) - 1

    def framed(self) -> bytes:
        return bytes([self.left]) + (self.word << -self.left % 8).to_bytes((self.left + 7) // 8)
