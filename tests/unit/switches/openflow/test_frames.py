"""Datagrams in Ethernet frames, read and written by hand, against os-ken's packet library."""

from ipaddress import IPv4Address, IPv6Address, ip_address

from hypothesis import given
from hypothesis import strategies as st
from os_ken.lib.packet import ethernet, ipv4, ipv6, udp
from os_ken.lib.packet.packet import Packet

from pleroma.switches.openflow.frames import Datagram

ports = st.integers(0, 65535)
payloads = st.binary(min_size=1, max_size=1232)
macs = st.binary(min_size=6, max_size=6).map(lambda mac: mac.hex(":"))


def datagrams(addresses):
    ends = st.tuples(addresses, ports)
    return st.builds(Datagram, macs, macs, ends, ends, payloads)


any_datagrams = datagrams(st.builds(IPv4Address, st.integers(0, 2**32 - 1))) | datagrams(
    st.builds(IPv6Address, st.integers(0, 2**128 - 1))
)


def by_os_ken(datagram):
    frame = Packet()
    (source, source_port), (destination, port) = datagram.source, datagram.destination
    is_v6 = destination.version == 6
    frame.add_protocol(ethernet.ethernet(datagram.destination_mac, datagram.source_mac, 0x86DD if is_v6 else 0x0800))
    kind, protocol = (ipv6.ipv6, "nxt") if is_v6 else (ipv4.ipv4, "proto")
    frame.add_protocol(kind(src=str(source), dst=str(destination), **{protocol: 17}))
    frame.add_protocol(udp.udp(source_port, port))
    frame.add_protocol(datagram.payload)
    frame.serialize()
    return bytes(frame.data)


@given(any_datagrams)
def test_a_datagram_is_written_as_os_ken_writes_it_but_for_the_padding(datagram):
    assert by_os_ken(datagram).rstrip(b"\0") == datagram.pack().rstrip(b"\0")


@given(any_datagrams, st.binary(max_size=50))
def test_a_datagram_is_read_whatever_padding_is_behind_it(datagram, padding):
    assert Datagram.unpack(datagram.pack() + padding) == datagram


@given(any_datagrams, st.data())
def test_a_frame_that_is_cut_short_is_no_datagram(datagram, data):
    frame = datagram.pack()
    assert Datagram.unpack(frame[: data.draw(st.integers(0, len(frame) - 1))]) is None


@given(any_datagrams, st.data())
def test_what_os_ken_reads_from_a_damaged_frame_is_read_alike_or_not_at_all(datagram, data):
    frame = bytearray(datagram.pack())
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(12, min(len(frame), 62) - 1))] = data.draw(st.integers(0, 255))
    read = Datagram.unpack(bytes(frame))
    if read is not None:
        _, network, transport, *_ = Packet(bytes(frame)).protocols
        assert read.source == (ip_address(network.src), transport.src_port)
        assert read.destination == (ip_address(network.dst), transport.dst_port)


def test_a_fragment_and_another_protocol_are_no_datagrams():
    frame = Datagram("02:00:00:00:00:01", "02:00:00:00:00:02", (IPv4Address(1), 1), (IPv4Address(2), 2), b"x").pack()
    for at, value in ((20, 0x20), (21, 1), (23, 6), (14, 0x44), (14, 0x55), (12, 0x81)):
        changed = bytearray(frame)
        changed[at] = value
        assert Datagram.unpack(bytes(changed)) is None
