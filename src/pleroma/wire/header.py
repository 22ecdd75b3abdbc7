"""The thirty bytes that every event packet begins with, in network byte order and naturally aligned.

They can be read without knowing the schema, so a receiver looks at them first and finds the codec by schema number.
Version and kind come first and stay there: whatever else a later version moves, an older receiver can refuse it.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from pleroma.errors import WireError

EVENT_VERSION = 1
EVENT_KIND = 1
"""The kind of packet that carries an event; the other 255 kinds are free."""
EVENT_START = bytes((EVENT_VERSION, EVENT_KIND))
MAX_PACKET_BYTES = 1232
"""Bytes of a packet: every IPv6 link carries 1280 in one piece, of which IPv6 takes 40 and UDP 8."""
HEADER_FORM = Struct("!2sHIQQIH")

_Fields = tuple[int, int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Header:
    """`time` is in nanoseconds since 1970: in eight bytes they last until 2554, and microseconds would save none."""

    schema_number: int
    epoch: int
    sequence: int
    time: int
    publisher: int
    fingerprint: int


def peek(data: bytes) -> Header:
    """The header of a packet. The rest of the packet is not read, and may be malformed."""
    return Header(*read(data))


def read(data: bytes) -> _Fields:
    """The fields of a packet's header, in the order of `Header`."""
    if data[:2] != EVENT_START:
        raise _wrong_start(data)
    if len(data) > MAX_PACKET_BYTES:
        raise too_large(len(data))
    if len(data) < HEADER_FORM.size:
        raise cut_short(data, HEADER_FORM.size)
    return HEADER_FORM.unpack_from(data)[1:]


def cut_short(data: bytes, needed: int) -> WireError:
    return WireError(f"cut short: {len(data)} bytes of at least {needed}", field="size", value=len(data))


def too_large(size: int) -> WireError:
    return WireError(f"a packet of {size} bytes, {MAX_PACKET_BYTES} is the most", field="size", value=size)


def _wrong_start(data: bytes) -> WireError:
    """The error of a packet whose first two bytes are not the known version and kind."""
    for name, known, given in zip(("version", "kind"), EVENT_START, data, strict=False):
        if given != known:
            return WireError(f"{given} is not known, only {known} is", field=name, value=given)
    return cut_short(data, HEADER_FORM.size)
