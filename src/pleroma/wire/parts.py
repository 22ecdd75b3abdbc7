"""Messages that are larger than a datagram: cut into parts, and put together again.

Parts may be lost, repeated or out of order. The receiver names the parts that it lacks, at most `MAX_PARTS_IN_FLIGHT`
at a time, so that no burst is longer than that. The sender keeps no clock and no record of what arrived.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct

from pleroma.errors import WireError
from pleroma.wire.inband_messages import MAX_PART_BYTES, MAX_PARTS

MAX_PARTS_IN_FLIGHT = 64
"""Of one message."""
_NUMBER = Struct("!H")


def cut(data: bytes) -> list[bytes]:
    """The parts of a message: at least one, and none larger than fits into a datagram."""
    parts = [data[at : at + MAX_PART_BYTES] for at in range(0, len(data), MAX_PART_BYTES)] or [b""]
    if len(parts) > MAX_PARTS:
        limit = MAX_PARTS * MAX_PART_BYTES
        raise WireError(f"{len(data)} bytes are more than the {limit} of a message", field="size", value=len(data))
    return parts


class Assembly:
    """A message of so many parts, as far as they have arrived."""

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self.size = 0
        """Bytes that have arrived."""
        self._there: dict[int, bytes] = {}
        self._mark = min(MAX_PARTS_IN_FLIGHT, parts) - 1

    @property
    def is_complete(self) -> bool:
        return len(self._there) == self.parts

    def add(self, number: int, body: bytes) -> bool:
        """Take a part; returns whether it is time to ask for the parts that are lacking.

        It is when the last part that was asked for has arrived, or the last part of all: the sender repeats that one
        to be asked for what is lacking.
        """
        if number not in self._there:
            self._there[number] = body
            self.size += len(body)
        return not self.is_complete and number in (self._mark, self.parts - 1)

    def lacking(self) -> list[int]:
        """The numbers of the parts to ask for next."""
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
    """The numbers of these parts that are asked for; other numbers are ignored."""
    whole = body[: min(len(body), 2 * MAX_PARTS_IN_FLIGHT) // 2 * 2]
    return [number for (number,) in _NUMBER.iter_unpack(whole) if number < len(parts)]
