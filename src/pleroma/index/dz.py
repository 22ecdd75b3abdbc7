"""A dz: the bit string that names a cell of the event space (Bhowmik et al. 2017, III-A).

It is an integer with a leading 1 in front of its bits, so the root is 1, the parent is a shift, and "is a prefix of" is
a shift and a compare. Being a plain integer, it is as cheap to hash, send and store as one.
"""

from __future__ import annotations

from pleroma.errors import DzError

MAX_LENGTH = 112
"""What an IPv6 multicast address has room for; the unit interval of all dz is cut into 2**112 atoms."""


class Dz(int):
    """A cell. Longer is smaller; a prefix covers all that begins with it."""

    __slots__ = ()

    def __new__(cls, code: int = 1) -> Dz:
        if code < 1 or code.bit_length() > MAX_LENGTH + 1:
            raise DzError(f"{code} is not the code of a dz of at most {MAX_LENGTH} bits", field="dz", value=code)
        return int.__new__(cls, code)

    @classmethod
    def parse(cls, bits: str) -> Dz:
        """From text such as `110`; the root is the empty text or `ε`."""
        if bits in ("", "ε"):
            return ROOT
        if not set(bits) <= {"0", "1"} or len(bits) > MAX_LENGTH:
            raise DzError(f"{bits!r} is not a string of at most {MAX_LENGTH} bits", field="dz", value=bits)
        return cls(int("1" + bits, 2))

    @property
    def length(self) -> int:
        return self.bit_length() - 1

    @property
    def parent(self) -> Dz:
        if self == 1:
            raise DzError("the root has no parent", field="dz", value=str(self))
        return Dz(self >> 1)

    @property
    def sibling(self) -> Dz:
        if self == 1:
            raise DzError("the root has no sibling", field="dz", value=str(self))
        return Dz(self ^ 1)

    @property
    def children(self) -> tuple[Dz, Dz]:
        return Dz(self << 1), Dz(self << 1 | 1)

    def covers(self, other: int) -> bool:
        """Whether this is a prefix of the other (or the same)."""
        extra = other.bit_length() - self.bit_length()
        return extra >= 0 and other >> extra == self

    def overlaps(self, other: int) -> bool:
        return self.covers(other) or Dz.covers(Dz(other), self)

    def meet(self, other: Dz) -> Dz | None:
        """The longer of the two where they overlap."""
        if self.covers(other):
            return other
        return self if other.covers(self) else None

    def then(self, other: Dz) -> Dz:
        """The bits of this one, followed by those of the other."""
        return Dz(self << other.length | other ^ 1 << other.length)

    def truncate(self, length: int) -> Dz:
        """The prefix of at most `length` bits."""
        if length < 0:
            raise DzError(f"a length cannot be {length}", field="length", value=length)
        return self if self.length <= length else Dz(self >> self.length - length)

    @property
    def start(self) -> int:
        """The first atom of the cell."""
        room = MAX_LENGTH + 1 - self.bit_length()
        return (self << room) - (1 << MAX_LENGTH)

    @property
    def end(self) -> int:
        """The first atom behind the cell."""
        room = MAX_LENGTH + 1 - self.bit_length()
        return (self + 1 << room) - (1 << MAX_LENGTH)

    def __str__(self) -> str:
        return f"{self:b}"[1:] or "ε"

    def __repr__(self) -> str:
        return f"Dz('{self}')"


ROOT = Dz(1)
"""The whole event space."""
