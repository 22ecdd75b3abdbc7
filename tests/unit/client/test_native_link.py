"""Links to real networks, as far as one machine without switches can show: sockets and their options."""

import asyncio
import socket

import pytest

from pleroma.client.links import native_link
from pleroma.client.links.native_link import NativeLink, interface_of
from pleroma.client.links.network_link import HostAttachment, open_link
from pleroma.client.links.tunnel_link import TunnelLink
from pleroma.errors import ClientError
from pleroma.index import IPV4, IPV6, Dz
from pleroma.wire.attach import AttachKind, pack

NATIVE = {"network": "native", "host": "h1", "address": "::1", "port": 17470, "range": "ff0e::/16", "seconds": 30.0}
TUNNEL = {"host": "h1", "address": "fd00::1", "udp_host": "127.0.0.1", "port": 9, "secret": "00" * 16, "seconds": 3}


CELL = IPV6.address(Dz.parse("")).packed


def free_port(family, address):
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]


def at(address):
    """An attachment at a port of the test's own: that of events is one for the whole machine."""
    v6 = ":" in address
    port = free_port(socket.AF_INET6 if v6 else socket.AF_INET, address)
    return HostAttachment("h1", (address, port), 30.0, IPV6 if v6 else IPV4)


def test_the_controller_says_which_kind_of_link_it_is():
    native = HostAttachment.from_json(NATIVE)
    assert native == HostAttachment("h1", ("::1", 17470), 30.0, IPV6)
    assert native.is_native
    tunnel = HostAttachment.from_json(TUNNEL)
    assert not tunnel.is_native
    assert tunnel.where == ("127.0.0.1", 9)
    assert HostAttachment.from_json(TUNNEL | {"network": "tunnel", "range": "ff0e::/16"}) == tunnel
    assert HostAttachment.from_json(NATIVE | {"range": "225.128.0.0/9"}).addresses == IPV4


@pytest.mark.parametrize(
    "damage",
    [
        {"range": "fd00::/8"},
        {"range": 5},
        {"port": "x"},
        {"seconds": None},
        {"network": "tunnel"},
        {"network": "other"},
    ],
)
def test_what_cannot_be_read_is_refused(damage):
    with pytest.raises(ClientError, match="attachment"):
        HostAttachment.from_json(NATIVE | damage)


@pytest.mark.parametrize("address", ["::1", "127.0.0.1"])
def test_packets_come_in_at_the_hosts_own_address(address):
    async def main():
        came = asyncio.Queue()
        attachment = at(address)
        link = open_link(attachment, came.put_nowait, lambda _: None)
        assert isinstance(link, NativeLink)
        assert await link.attach()
        with socket.socket(link._family, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"packet", attachment.where)
        assert await asyncio.wait_for(came.get(), 20) == b"packet"
        link.close()
        link.close()

    asyncio.run(main())


def test_a_link_of_the_embedded_network_is_a_tunnel():
    async def main():
        link = open_link(HostAttachment.from_json(TUNNEL), lambda _: None, lambda _: None)
        assert isinstance(link, TunnelLink)
        link.close()

    asyncio.run(main())


def test_once_a_datagram_was_refused_none_is_sent_before_the_other_side_has_answered():
    async def main():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(("127.0.0.1", 0))
            attachment = HostAttachment("h1", other.getsockname(), 30.0, secret=bytes(range(16)))
            link = TunnelLink(attachment, lambda _: None)
            assert link.send(CELL, b"heard")
        # nobody listens any more: the kernel takes one, says so at the next, and would take the one after that
        assert [link.send(CELL, b"lost") for _ in range(6)] == [True, *[False] * 5]
        link._take_answer(pack(AttachKind.ATTACHED, attachment.secret))
        assert link.send(CELL, b"taken")
        link.close()

    asyncio.run(main())


@pytest.mark.parametrize("address", ["::1", "127.0.0.1"])
def test_a_second_client_at_the_same_host_is_told_so(address):
    async def main():
        attachment = at(address)
        first = NativeLink(attachment, lambda _: None)
        with pytest.raises(ClientError, match="another program on this host receives events already"):
            NativeLink(attachment, lambda _: None)
        first.close()
        NativeLink(attachment, lambda _: None).close()

    asyncio.run(main())


@pytest.mark.parametrize(("address", "addresses"), [("2001:db8::77", IPV6), ("192.0.2.77", IPV4)])
def test_a_client_that_is_on_another_machine_is_told_so(address, addresses):
    async def main():
        with pytest.raises(ClientError, match="does not have that address"):
            NativeLink(HostAttachment("h1", (address, 17470), 30.0, addresses), lambda _: None)

    asyncio.run(main())


def test_addresses_of_hosts_and_events_are_of_one_kind():
    async def main():
        with pytest.raises(ClientError, match="different kinds"):
            NativeLink(HostAttachment("h1", ("127.0.0.1", 17470), 30.0, IPV6), lambda _: None)

    asyncio.run(main())


def test_events_go_out_where_the_hosts_address_is_and_do_not_come_back():
    async def main():
        link = NativeLink(at("::1"), lambda _: None)
        level = socket.IPPROTO_IPV6
        assert link._socket.socket.getsockopt(level, socket.IPV6_MULTICAST_IF) == socket.if_nametoindex("lo")
        assert link._socket.socket.getsockopt(level, socket.IPV6_MULTICAST_LOOP) == 0
        assert link._socket.socket.getsockopt(level, socket.IPV6_MULTICAST_HOPS) == 1
        link.close()
        link = NativeLink(at("127.0.0.1"), lambda _: None)
        level = socket.IPPROTO_IP
        interface = link._socket.socket.getsockopt(level, socket.IP_MULTICAST_IF, 4)
        assert interface == socket.inet_aton("127.0.0.1")
        assert link._socket.socket.getsockopt(level, socket.IP_MULTICAST_LOOP) == 0
        assert link._socket.socket.getsockopt(level, socket.IP_MULTICAST_TTL) == 1
        link.close()

    asyncio.run(main())


def test_interfaces_are_found_by_their_address():
    assert interface_of("::1") == socket.if_nametoindex("lo")
    assert interface_of("2001:db8::77") is None
    assert interface_of("127.0.0.1") is None


def test_where_the_system_does_not_tell_the_kernel_chooses(monkeypatch, tmp_path):
    monkeypatch.setattr(native_link, "_ADDRESSES", tmp_path / "none")
    assert interface_of("::1") is None


def test_what_was_sent_takes_the_short_way_too_and_what_was_not_does_not():
    async def main():
        echoed, sent = [], []
        link = NativeLink(at("::1"), lambda _: None, echoed.append)
        real = link._socket

        class Card:
            def send(self, packet, to):
                if len(sent) == 2:
                    return OSError()
                sent.append((packet, to))
                return None

        link._socket = Card()
        assert link.send(CELL, b"one")
        assert await asyncio.to_thread(link.send, CELL, b"two")
        assert not link.send(CELL, b"three")
        await asyncio.sleep(0)
        assert echoed == [b"one", b"two"]
        assert sent[0] == (b"one", ("ff0e::", 17470))
        link._socket = real
        link.close()

    asyncio.run(main())


def test_a_native_link_outlives_the_controller():
    async def main():
        link = NativeLink(at("::1"), lambda _: None)
        link.doubt()
        staying = asyncio.create_task(link.stay())
        await asyncio.sleep(0.05)
        assert not staying.done()
        staying.cancel()
        assert link.overrun == 0
        link.close()

    asyncio.run(main())
