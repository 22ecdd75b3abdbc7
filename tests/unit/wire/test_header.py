"""What can be read of a packet before its schema is known."""

import pytest

from pleroma.errors import WireError
from pleroma.wire import MAX_PACKET_BYTES, Header, peek
from pleroma.wire.header import TAG_BYTES

FIELDS = "0102 03040506 0708090a0b0c0d0e 0f10111213141516 1718191a 1b1c"
DATA = bytes.fromhex("0101" + FIELDS)


def test_every_field_has_its_place():
    assert peek(DATA) == Header(
        schema_number=0x0102,
        epoch=0x03040506,
        sequence=0x0708090A0B0C0D0E,
        time=0x0F10111213141516,
        publisher=0x1718191A,
        fingerprint=0x1B1C,
    )


def test_what_follows_the_header_does_not_matter():
    assert peek(DATA + b"anything") == peek(DATA)


@pytest.mark.parametrize("length", range(30))
def test_a_header_that_is_cut_short_is_refused(length):
    with pytest.raises(WireError, match=f"size: cut short: {length} bytes of at least 30"):
        peek(DATA[:length])


@pytest.mark.parametrize("other", [0, 7, 255])
def test_the_version_is_looked_at_before_the_kind_and_the_kind_before_the_size(other):
    with pytest.raises(WireError, match=f"version: {other} is not known, only 1 is") as refused:
        peek(bytes([other, 9]))
    assert (refused.value.field, refused.value.value) == ("version", other)
    with pytest.raises(WireError, match=f"kind: {other} is not known, only 1 to 6 are") as refused:
        peek(bytes([1, other]))
    assert (refused.value.field, refused.value.value) == ("kind", other)


def test_more_than_a_packet_is_refused():
    assert peek(DATA.ljust(MAX_PACKET_BYTES, b"\0"))
    with pytest.raises(WireError, match="size: a packet of 1233 bytes, 1232 is the most"):
        peek(DATA.ljust(MAX_PACKET_BYTES + 1, b"\0"))


def test_a_tagged_packet_has_the_same_header_and_room_for_its_tag():
    assert peek(b"\1\3" + DATA[2:]) == peek(DATA)
    for start in (b"\1\2", b"\1\4"):
        tagged = start + DATA[2:] + bytes(TAG_BYTES)
        assert peek(tagged) == peek(DATA)
        with pytest.raises(WireError, match="size: cut short: 37 bytes of at least 38"):
            peek(tagged[:-1])
