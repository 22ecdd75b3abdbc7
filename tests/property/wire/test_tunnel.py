"""Frames: whatever is wrapped comes out, and garbage is refused by one error."""

from ipaddress import IPv6Address

from hypothesis import given
from hypothesis import strategies as st

from pleroma.errors import WireError
from pleroma.index import IPV6, Dz
from pleroma.wire.tunnel import TUNNEL_START, unwrap, wrap

addresses = st.integers(0, 2**128 - 1).map(IPv6Address)
payloads = st.binary(min_size=1, max_size=50)


@given(addresses, payloads)
def test_a_frame_survives_the_way(address, payload):
    assert unwrap(wrap(address, payload)) == (address, payload)


@given(st.integers(1, 2**113 - 1).map(Dz), payloads)
def test_a_switch_reads_the_dz_of_the_event(dz, payload):
    address, _ = unwrap(wrap(IPV6.address(dz), payload))
    assert IPV6.dz(address, dz.length) == dz


@given(st.binary(max_size=40) | st.binary(max_size=40).map(TUNNEL_START.__add__))
def test_garbage_is_refused_or_has_this_one_form(frame):
    try:
        address, payload = unwrap(frame)
    except WireError:
        assert len(frame) <= 20 or not frame.startswith(TUNNEL_START)
    else:
        assert wrap(address, payload) == frame


@given(addresses, payloads)
def test_a_frame_cut_short_loses_its_packet_or_is_refused(address, payload):
    frame = wrap(address, payload)
    for length in range(21):
        try:
            assert unwrap(frame[:length]) == (address, payload[: length - 20])
        except WireError:
            assert length <= 20
