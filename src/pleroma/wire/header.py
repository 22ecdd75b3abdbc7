"""The thirty bytes that every event packet begins with, in network byte order and naturally aligned.

They can be read without knowing the schema, so a receiver looks at them first and finds the codec by schema number.
Version and kind come first and stay there: whatever else a later version moves, an older receiver can refuse it.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from pleroma.errors import WireError

EVENT_VERSION = 1
PLAIN_KIND = 1
"""The kind of packet that carries an event and nothing else."""
TAGGED_KIND = 2
"""The kind of packet whose event is followed by a tag (`pleroma.wire.event_tags`)."""
PAYLOAD_KIND = 3
"""The kind of packet whose event is followed by a payload, of one byte at least."""
TAGGED_PAYLOAD_KIND = 4
"""The kind of packet whose event is followed by a payload and a tag."""
ENCRYPTED_KIND = 5
"""The kind of packet whose event is encrypted (`pleroma.wire.event_encryption`)."""
ENCRYPTED_PAYLOAD_KIND = 6
"""The kind of packet whose event and payload are encrypted; the other 250 kinds are free."""
PLAIN_START, TAGGED_START, PAYLOAD_START, TAGGED_PAYLOAD_START, ENCRYPTED_START, ENCRYPTED_PAYLOAD_START = (
    bytes((EVENT_VERSION, kind)) for kind in range(PLAIN_KIND, ENCRYPTED_PAYLOAD_KIND + 1)
)
TAGGED_START_OF = {PLAIN_START: TAGGED_START, PAYLOAD_START: TAGGED_PAYLOAD_START}
"""By the first two bytes of a packet without a tag: those of the same packet with one."""
TAGGED_STARTS = frozenset(TAGGED_START_OF.values())
ENCRYPTED_START_OF = {PLAIN_START: ENCRYPTED_START, PAYLOAD_START: ENCRYPTED_PAYLOAD_START}
"""By the first two bytes of a plain packet: those of the same packet encrypted."""
ENCRYPTED_STARTS = frozenset(ENCRYPTED_START_OF.values())
PAYLOAD_STARTS = frozenset((PAYLOAD_START, TAGGED_PAYLOAD_START))
TAG_BYTES = 8
ENCRYPTION_BYTES = 16
"""By how much an encrypted packet is larger than the plain one."""
MAX_PACKET_BYTES = 1232
"""Bytes of a packet: every IPv6 link carries 1280 in one piece, of which IPv6 takes 40 and UDP 8."""
MAX_EVENT_BYTES = MAX_PACKET_BYTES - TAG_BYTES
"""Bytes of a header and an event that leave room for a tag."""
HEADER_FORM = Struct("!2sHIQQIH")
PUBLISHER_PLACE = slice(24, 28)
"""Where a packet has the number of its publisher."""

_STARTS = frozenset((*TAGGED_START_OF, *TAGGED_STARTS, *ENCRYPTED_STARTS))
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
    start = data[:2]
    if start not in _STARTS:
        raise _wrong_start(data)
    if len(data) > MAX_PACKET_BYTES:
        raise too_large(len(data))
    needed = HEADER_FORM.size
    if start in TAGGED_STARTS:
        needed += TAG_BYTES
    elif start in ENCRYPTED_STARTS:
        needed += ENCRYPTION_BYTES
    if len(data) < needed:
        raise cut_short(data, needed)
    return HEADER_FORM.unpack_from(data)[1:]


def cut_short(data: bytes, needed: int) -> WireError:
    return WireError(f"cut short: {len(data)} bytes of at least {needed}", field="size", value=len(data))


def too_large(size: int) -> WireError:
    return WireError(f"a packet of {size} bytes, {MAX_PACKET_BYTES} is the most", field="size", value=size)


def _wrong_start(data: bytes) -> WireError:
    """The error of a packet whose first two bytes are not the known version and a known kind."""
    if data and data[0] != EVENT_VERSION:
        return WireError(f"{data[0]} is not known, only {EVENT_VERSION} is", field="version", value=data[0])
    if len(data) > 1:
        known = f"only {PLAIN_KIND} to {ENCRYPTED_PAYLOAD_KIND} are"
        return WireError(f"{data[1]} is not known, {known}", field="kind", value=data[1])
    return cut_short(data, HEADER_FORM.size)
