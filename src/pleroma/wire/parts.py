"""Messages that are larger than a datagram: cut into parts, put together again, and what to ask for in between.

Loss, repetition and disorder are normal. Whoever puts a message together names the parts it lacks, a window of them at
a time, so that no burst is longer than that; whoever sends keeps no clock and no record of what arrived.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct

from pleroma.errors import WireError
from pleroma.wire.inband_messages import MAX_PART_BYTES, MAX_PARTS

MAX_PARTS_IN_FLIGHT = 64
"""Parts that are on their way at once."""
_NUMBER = Struct("!H")


def cut(data: bytes) -> list[bytes]:
    """At least one part, and none that is too large."""
    parts = [data[at : at + MAX_PART_BYTES] for at in range(0, len(data), MAX_PART_BYTES)] or [b""]
    if len(parts) > MAX_PARTS:
        most = MAX_PARTS * MAX_PART_BYTES
        raise WireError(f"{len(data)} bytes are more than the {most} of a message", field="size", value=len(data))
    return parts


class Assembly:
    """A message whose parts arrive."""

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self.size = 0
        """Bytes that have come."""
        self._there: dict[int, bytes] = {}
        self._mark = min(MAX_PARTS_IN_FLIGHT, parts) - 1

    @property
    def is_complete(self) -> bool:
        return len(self._there) == self.parts

    def add(self, number: int, body: bytes) -> bool:
        """One part; tells whether to ask for what is lacking now.

        That is when the last of those asked for has come, or the last part of all: by sending that, the other side
        asks to be asked.
        """
        if number not in self._there:
            self._there[number] = body
            self.size += len(body)
        return not self.is_complete and number in (self._mark, self.parts - 1)

    def lacking(self) -> list[int]:
        """The next parts to ask for."""
        found: list[int] = []
        for number in range(self.parts):
            if number not in self._there:
                found.append(number)
                if len(found) == MAX_PARTS_IN_FLIGHT:
                    break
        if found:
            self._mark = found[-1]
        return found

    def whole(self) -> bytes:
        return b"".join(self._there[number] for number in range(self.parts))


def pack_numbers(numbers: Iterable[int]) -> bytes:
    return b"".join(map(_NUMBER.pack, numbers))


def unpack_numbers(body: bytes, parts: Sequence[bytes]) -> list[int]:
    """Which of these parts are asked for; what is no number of one is passed over."""
    whole = body[: min(len(body), 2 * MAX_PARTS_IN_FLIGHT) // 2 * 2]
    return [number for (number,) in _NUMBER.iter_unpack(whole) if number < len(parts)]
