"""Frames between a host and its simulated switch."""

from ipaddress import IPv4Address, IPv6Address

import pytest

from pleroma.errors import WireError
from pleroma.index import IPV4, IPV6, Dz
from pleroma.wire import MAX_PACKET_BYTES
from pleroma.wire.tunnel import unwrap, wrap

FRAME = bytes.fromhex("504c5401 ff0ec000000000000000000000000000") + b"packet"


def test_a_frame_is_these_bytes():
    address = IPV6.address(Dz.parse("110"))
    assert wrap(address, b"packet") == FRAME
    assert unwrap(FRAME) == (IPv6Address("ff0e:c000::"), b"packet")
    assert IPV6.dz(unwrap(FRAME)[0], 3) == Dz.parse("110")


def test_a_rewritten_destination_travels_the_same_way():
    host = IPv6Address("fd00::2")
    assert unwrap(wrap(host, b"packet")) == (host, b"packet")


@pytest.mark.parametrize("length", range(20))
def test_a_frame_that_is_cut_short_is_refused(length):
    with pytest.raises(WireError, match=f"size: cut short: {length} bytes of at least 20"):
        unwrap(FRAME[:length])


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        (FRAME[:20], "payload: a frame without a packet"),
        (b"X" + FRAME[1:], "magic: b'XLT' does not begin a frame, b'PLT' does"),
        (b"X", "magic: b'X' does not begin a frame, b'PLT' does"),
        (b"PLT\x02" + FRAME[4:], "version: 2 is not known, only 1 is"),
        (FRAME[:20] + bytes(MAX_PACKET_BYTES + 1), "size: a packet of 1233 bytes, 1232 is the most"),
    ],
)
def test_what_is_not_a_frame_is_refused_with_a_reason(frame, error):
    with pytest.raises(WireError) as refused:
        unwrap(frame)
    assert str(refused.value) == error


def test_the_largest_packet_fits_a_frame():
    largest = bytes(MAX_PACKET_BYTES)
    assert unwrap(wrap(IPv6Address("::1"), largest))[1] == largest


@pytest.mark.parametrize("payload", [b"", bytes(MAX_PACKET_BYTES + 1)])
def test_no_packet_and_too_large_a_packet_are_not_sent(payload):
    with pytest.raises(WireError):
        wrap(IPv6Address("::1"), payload)


@pytest.mark.parametrize("address", [IPv4Address("225.128.0.1"), IPV4.address(Dz(1)), IPv6Address("fe80::1%2")])
def test_the_address_is_a_plain_ipv6_address(address):
    with pytest.raises(WireError, match=r"address: .* is not a plain IPv6 address"):
        wrap(address, b"packet")
