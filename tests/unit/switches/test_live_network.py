"""The live network with sockets of this process.

h1 and h2 are at s1, which is linked to s2 with h3, and that to s3 with h4.
"""

import asyncio
import random
import resource
import socket
from contextlib import asynccontextmanager, closing
from ipaddress import IPv6Address

import pytest

from pleroma.errors import RoutingError, SetupError, TableFull, UnknownName
from pleroma.index import IPV6, Dz
from pleroma.routing import DetourOp, Presence, build
from pleroma.routing.flow import Change, Flow, FlowOp, Output
from pleroma.routing.topology import Host, HostId, Link, Port, SwitchId, Topology
from pleroma.switches import EmbeddedNetwork, Packet
from pleroma.switches.live.kernel_drops import dropped_at, kernel_drops
from pleroma.switches.live.live_network import LiveNetwork
from pleroma.switches.tracing.event_trace import Wires, trace
from pleroma.wire import MAX_PACKET_BYTES
from pleroma.wire.attach import AttachKind, pack, unpack
from pleroma.wire.tunnel import unwrap, wrap
from support.networks import any_tables, any_tree, some_cells

S1, S2, S3 = (SwitchId(f"s{n}") for n in (1, 2, 3))
ADDRESS = {f"h{n}": f"fd00::{n}" for n in range(1, 5)}
HOSTS = tuple(
    Host(HostId(name), switch, Port(port), ADDRESS[name])
    for name, switch, port in (("h1", S1, 1), ("h2", S1, 2), ("h3", S2, 2), ("h4", S3, 2))
)
LINKS = (Link(S1, Port(3), S2, Port(1)), Link(S2, Port(3), S3, Port(1)))
LINE = Topology((S1, S2, S3), HOSTS, LINKS)


def rule(switch, bits, *outputs, change=Change.ADD):
    """Outputs are ports, or names of hosts at (port, name)."""
    made = [Output(Port(o)) if isinstance(o, int) else Output(Port(o[0]), ADDRESS[o[1]]) for o in outputs]
    return FlowOp(switch, change, Flow(Dz.parse(bits), tuple(made)))


EVERYBODY_WANTS_1 = [
    rule(S1, "1", (1, "h1"), (2, "h2"), 3),
    rule(S2, "1", 1, (2, "h3"), 3),
    rule(S3, "1", 1, (2, "h4")),
]


class Peer:
    """A socket of a client, attached or not."""

    def __init__(self, net, host, secret=None):
        self.net, self.host, self.secret = net, host, secret
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.connect(("127.0.0.1", net.ports[host]))
        self.socket.setblocking(False)

    def send(self, frame):
        self.socket.send(frame)

    def publish(self, bits, packet=b"packet"):
        self.send(wrap(IPV6.address(Dz.parse(bits)), packet))

    def frames(self):
        """What has come so far; what the network has sent is here already, since loopback is not a line to wait for."""
        found = []
        while True:
            try:
                found.append(self.socket.recv(2000))
            except BlockingIOError:
                return found

    def packets(self):
        return [(str(address), packet) for address, packet in map(unwrap, self.frames())]

    async def say(self, kind, secret=None):
        """Send a control frame; what is answered."""
        self.send(pack(kind, secret or self.secret))
        await rest()
        return [unpack(frame) for frame in self.frames()]


async def rest():
    """Let the network take everything that waits: it does in one turn of the loop, or in a few."""
    for _ in range(20):
        await asyncio.sleep(0)


@asynccontextmanager
async def network(topology=LINE, ops=EVERYBODY_WANTS_1, **options):
    """A live network, and what makes peers of it. Nothing may reach the loop as an error."""
    errors = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    peers = []

    async def peer(host, *, seconds=60.0, attach=True, principal=""):
        secret = random.randbytes(16)
        made = Peer(net, host, secret)
        peers.append(made)
        if attach:
            net.admit(host, secret, seconds, principal)
            assert await made.say(AttachKind.ATTACH) == [(AttachKind.ATTACHED, secret)]
        return made

    async with LiveNetwork(topology, **options) as net:
        await net.install(ops)
        try:
            yield net, peer
        finally:
            for each in peers:
                each.socket.close()
    assert errors == []


def run(test):
    """A test that is a coroutine."""

    def wrapped(*arguments, **named):
        asyncio.run(asyncio.wait_for(test(*arguments, **named), 30))

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    return wrapped


@run
async def test_the_packet_comes_out_unchanged_under_the_address_of_each_receiver():
    async with network() as (net, peer):
        peers = {name: await peer(name) for name in ADDRESS}
        peers["h1"].publish("101", b"the packet")
        await rest()
        assert {name: each.packets() for name, each in peers.items()} == {
            "h1": [],
            "h2": [("fd00::2", b"the packet")],
            "h3": [("fd00::3", b"the packet")],
            "h4": [("fd00::4", b"the packet")],
        }
        peers["h1"].publish("01")
        await rest()
        assert not any(each.packets() for each in peers.values())
        assert net.switches[S1].misses == 1


@run
async def test_every_socket_of_a_receiving_host_gets_it_and_none_of_the_sending_host():
    async with network() as (net, peer):
        sender, beside, *others = [await peer(name) for name in ("h1", "h1", "h3", "h3", "h3")]
        sender.publish("1")
        await rest()
        assert [each.packets() for each in others] == [[("fd00::3", b"packet")]] * 3
        assert sender.packets() == beside.packets() == []
        assert (net.hosts["h3"].delivered, net.hosts["h3"].delivered_bytes) == (3, 18)


@run
async def test_with_loopback_a_host_passes_it_to_its_other_sockets_as_it_was_sent():
    async with network(loopback=True) as (_, peer):
        sender, beside, far = [await peer(name) for name in ("h1", "h1", "h3")]
        sender.publish("1")
        await rest()
        assert beside.packets() == [("ff0e:8000::", b"packet")]
        assert sender.packets() == []
        assert far.packets() == [("fd00::3", b"packet")]


@run
async def test_an_unattached_socket_sends_nothing():
    async with network() as (net, peer):
        receiver, stranger, elsewhere = await peer("h3"), await peer("h1", attach=False), await peer("h2")
        stranger.publish("1")
        elsewhere.socket.connect(("127.0.0.1", net.ports["h1"]))  # attached, but at another host
        elsewhere.publish("1")
        await rest()
        assert receiver.packets() == []
        assert net.hosts["h1"].unattached == 2
        assert net.hosts["h1"].published == 0


@run
async def test_a_wrong_secret_is_refused():
    async with network() as (net, peer):
        stranger, receiver = await peer("h1", attach=False), await peer("h3")
        assert await stranger.say(AttachKind.ATTACH) == [(AttachKind.REFUSED, stranger.secret)]
        assert await stranger.say(AttachKind.ATTACH, receiver.secret) == [
            (AttachKind.REFUSED, receiver.secret)
        ]  # of another host
        assert await stranger.say(AttachKind.DETACH) == []
        for kind in (AttachKind.ATTACHED, AttachKind.REFUSED):
            assert await stranger.say(kind) == []
        assert net.hosts["h1"].refused == 5
        stranger.publish("1")
        await rest()
        assert receiver.packets() == []
        assert net.attached("h1") == []
        assert net.attached("h3") == [receiver.socket.getsockname()]


@run
async def test_detached_it_neither_sends_nor_receives():
    async with network() as (net, peer):
        one, two = await peer("h1"), await peer("h3")
        await two.say(AttachKind.DETACH)
        one.publish("1")
        two.publish("1")
        await rest()
        assert one.packets() == two.packets() == []
        assert (net.hosts["h3"].unclaimed, net.hosts["h3"].unattached) == (1, 1)
        assert await two.say(AttachKind.ATTACH) == [(AttachKind.REFUSED, two.secret)]


@run
async def test_a_socket_stays_while_it_repeats_itself():
    now = [100.0]
    async with network(clock=lambda: now[0]) as (net, peer):
        one, two, silent = await peer("h1"), await peer("h3", seconds=10), await peer("h3", seconds=10)
        net.admit("h2", bytes(16), 10)
        assert net.sessions() == {"h1": 1, "h2": 1, "h3": 2, "h4": 0}
        now[0] += 9
        assert await two.say(AttachKind.ATTACH) == [(AttachKind.ATTACHED, two.secret)]
        now[0] += 1
        one.publish("1")
        silent.publish("1")
        await rest()
        assert two.packets() == [("fd00::3", b"packet")]
        assert silent.packets() == []
        assert net.hosts["h3"].unattached == 1
        assert net.sessions() == {"h1": 1, "h2": 0, "h3": 1, "h4": 0}
        now[0] += 50
        assert net.sessions() == {"h1": 0, "h2": 0, "h3": 0, "h4": 0}


@run
async def test_the_service_can_end_the_sessions_of_a_token():
    async with network() as (net, peer):
        one, other = [await peer("h1"), await peer("h2")]
        for number, digest in enumerate(("old", "new")):
            net.admit("h1", bytes([number]) * 16, 60.0, token=digest)
        net.dismiss(lambda digest: digest == "old")
        assert net.sessions() == {"h1": 2, "h2": 1, "h3": 0, "h4": 0}
        net.dismiss(lambda _: True)  # nobody has shown a token for the sessions of these two
        for each in (one, other):
            assert await each.say(AttachKind.ATTACH) == [(AttachKind.ATTACHED, each.secret)]


@run
async def test_rules_take_effect_with_the_next_packet():
    async with network() as (net, peer):
        one, two, three = [await peer(f"h{n}") for n in (1, 2, 3)]
        one.publish("11")
        await rest()
        await net.install([rule(S1, "11", (2, "h2"))])
        one.publish("11")
        await rest()
        await net.install([rule(S1, "11", change=Change.DELETE), rule(S1, "1", 3, change=Change.MODIFY)])
        one.publish("11")
        await rest()
        assert len(two.packets()) == 2
        assert len(three.packets()) == 2
        assert net.tables[S1].hits(Dz.parse("1")).packets == 2
        assert net.flow_tables()[S1].lookup(Dz.parse("11")).ports == (3,)


@run
async def test_what_a_switch_refuses_is_raised_and_the_others_stand():
    small = Topology(LINE.switches, LINE.hosts, LINE.links, {S1: 1})
    async with network(small) as (net, peer):
        one, two = await peer("h4"), await peer("h3")
        with pytest.raises(TableFull):
            await net.install([rule(S1, "0", 3), rule(S2, "0", (2, "h3")), rule(S3, "0", 1)])
        assert [len(net.tables[s]) for s in (S1, S2, S3)] == [1, 2, 2]
        with pytest.raises(RoutingError, match="s2: cannot add 0: the rule is already there"):
            await net.install([rule(S2, "0", 1)])
        with pytest.raises(UnknownName):
            await net.install([rule("s9", "0", 1)])
        one.publish("0")
        await rest()
        assert two.packets() == [("fd00::3", b"packet")]


@run
async def test_a_rule_that_was_never_added_can_be_deleted():
    """After an attempt that failed, a network is told to delete what it may have."""
    async with network() as (net, _):
        detour = DetourOp(S1, Change.DELETE, rule(S1, "0", 3).flow)
        await net.install([rule(S1, "0", 3, change=Change.DELETE), detour, rule(S1, "1", change=Change.DELETE)])
        assert len(net.tables[S1]) == 0


@run
async def test_what_is_not_for_an_event_misses_at_the_first_switch():
    async with network(ops=[rule(S1, "", (2, "h2"))]) as (net, peer):
        one, two = await peer("h1"), await peer("h2")
        one.send(wrap(IPv6Address("fd00::2"), b"x"))
        one.send(wrap(IPv6Address("ff0d::"), b"x"))
        await rest()
        assert two.packets() == []
        assert net.hosts["h1"].published == 2
        assert (net.switches[S1].lookups, net.switches[S1].misses) == (2, 2)


@run
async def test_everything_is_counted():
    async with network() as (net, peer):
        one, three = await peer("h1"), await peer("h3")
        for size in (10, 20):
            one.publish("1", bytes(size))
        await rest()
        assert len(three.packets()) == 2
        ports = {(s, p): net.port(s, p) for s, p in ((S1, 1), (S1, 3), (S2, 1), (S2, 2))}
        seen = {key: (c.received, c.received_bytes, c.sent, c.sent_bytes) for key, c in ports.items()}
        assert seen == {
            (S1, 1): (2, 30, 0, 0),
            (S1, 3): (0, 0, 2, 30),
            (S2, 1): (2, 30, 0, 0),
            (S2, 2): (0, 0, 2, 30),
        }
        assert net.tables[S2].hits(Dz.parse("1")).bytes == 30
        assert net.hosts["h1"].published_bytes == 30
        assert net.hosts["h4"].unclaimed == 2
        assert sum(traffic.sent for traffic in net.by_line().values()) == 12
        assert not any(net.misaddressed.values())


@run
async def test_events_are_counted_by_who_sent_them_and_nothing_is_kept_of_who_is_gone():
    async with network() as (net, peer):
        ann, again, bob, stranger = [
            await peer("h1", principal="ann"),
            await peer("h1", principal="ann"),
            await peer("h1", principal="bob"),
            await peer("h1", attach=False),
        ]
        for sender in (ann, again, again, bob, stranger):
            sender.publish("1")
        await rest()
        assert net.published_by("h1") == {"ann": 3, "bob": 1}
        assert not net.published_by("h2")
        net.forget("ann")
        assert net.published_by("h1") == {"bob": 1}


@run
async def test_where_tables_lead_in_circles_everybody_gets_it_once():
    ring = build("ring:3")
    ports = {s: [p for p, _, _, _ in ring.neighbours[s]] for s in ring.switches}
    ops = [
        FlowOp(
            s,
            Change.ADD,
            Flow(Dz(1), tuple(sorted([Output(h.port, h.address), *map(Output, ports[s])]))),
        )
        for s, (h,) in ring.hosts_of.items()
    ]
    async with network(ring, ops) as (net, peer):
        one, two, three = [await peer(host.name) for host in ring.hosts]
        one.publish("1")
        await rest()
        assert [len(each.packets()) for each in (one, two, three)] == [1, 1, 1]  # also who sent it
        assert net.hosts["h1"].looped == 1
        rules = {switch: net.rules(switch) for switch in ring.switches}
        assert trace(Wires(ring, Presence()), rules, "h1", Dz(1)).looped


@run
async def test_random_bytes_at_every_port_are_dropped_and_counted():
    rng = random.Random(5)
    good = wrap(IPV6.address(Dz.parse("1")), b"packet")

    def garbage():
        kind = rng.randrange(6)
        if kind == 0:
            return rng.randbytes(rng.randrange(100))
        if kind == 1:
            return good[: rng.randrange(21)]
        if kind == 2:
            return good + bytes(rng.choice([MAX_PACKET_BYTES, MAX_PACKET_BYTES + 1, 60_000]))
        if kind == 3:
            return b"PLA\x01" + rng.randbytes(rng.choice([0, 1, 16, 17, 18, 40]))
        if kind == 4:
            return pack(rng.choice(list(AttachKind)), rng.randbytes(16))
        return bytes([*good[:4], rng.randrange(255)]) + rng.randbytes(30)  # a good frame, to no event

    async with network() as (net, peer):
        attached = {name: await peer(name) for name in ADDRESS}
        strangers = {name: await peer(name, attach=False) for name in ADDRESS}
        for _ in range(50):
            for name in ADDRESS:
                for each in rng.choices([attached[name], strangers[name]], k=5):
                    each.send(garbage())
            await rest()
        for name, counters in net.hosts.items():
            thrown_away = counters.malformed + counters.refused + counters.unattached
            assert thrown_away + counters.published == 250, name
            assert counters.malformed > 100
            assert counters.refused > 10
            assert counters.unattached > 10
            assert counters.published > 10
            assert counters.delivered == 0
        for each in attached.values():
            each.frames()
        attached["h1"].send(good)
        await rest()
        assert attached["h4"].packets() == [("fd00::4", b"packet")]


@run
async def test_who_does_not_read_loses_and_others_do_not():
    async with network() as (net, peer):
        sender, slow, beside, far = [await peer(name) for name in ("h1", "h3", "h3", "h4")]
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        found = []
        for number in range(200):
            sender.publish("1", number.to_bytes(2))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            found += beside.packets()
        await rest()
        found += beside.packets()
        assert [packet for _, packet in found] == [number.to_bytes(2) for number in range(200)]
        assert len(far.packets()) == 200
        drops = net.kernel_drops()
        lost = 200 - len(slow.packets())
        assert lost > 100
        if kernel_drops() is not None:
            assert drops.leaving == {"h1": 0, "h2": 0, "h3": lost, "h4": 0}
            assert drops.arriving == dict.fromkeys(ADDRESS, 0)


@run
async def test_what_the_system_does_not_take_is_counted():
    async with network() as (net, peer):
        sender, other = await peer("h1"), await peer("h3")
        net._outlets["h3"].sessions.admit(bytes(16), None, 60, 0)
        net._outlets["h3"].sessions.attach(bytes(16), ("127.0.0.1", 0), 1e9)  # there is no port 0 to send to
        sender.publish("1")
        await rest()
        assert (net.hosts["h3"].dropped, net.hosts["h3"].delivered) == (1, 1)
        assert len(other.packets()) == 1


@pytest.mark.parametrize("seed", range(8))
def test_sockets_get_what_the_embedded_network_delivers(seed):
    @run
    async def compare():
        rng = random.Random(seed)
        topology, where = any_tree(rng), some_cells(rng)
        ops = [FlowOp(s, Change.ADD, f) for s, table in any_tables(topology, where, rng).items() for f in table]
        reference = EmbeddedNetwork(topology)
        assert reference.install(ops).complete
        async with network(topology, ops) as (net, peer):
            peers = {host.name: await peer(host.name) for host in topology.hosts}
            for row in range(40):
                host, dz = rng.choice(topology.hosts).name, where.whole(rng)
                reference.publish(host, Packet(IPV6.dz(IPV6.address(dz)), 2, row.to_bytes(2)))
                peers[host].send(wrap(IPV6.address(dz), row.to_bytes(2)))
            await rest()
            expected = {host.name: [] for host in topology.hosts}
            for delivery in reference.run():
                mapped = IPv6Address(f"::ffff:{delivery.packet.destination}")
                expected[delivery.host].append((str(mapped), delivery.packet.payload))
            assert {name: sorted(each.packets()) for name, each in peers.items()} == {
                name: sorted(each) for name, each in expected.items()
            }
            assert net.switches == reference.counters
            assert list(net.by_line().values()) == list(reference.line_counters)
            assert net.misaddressed == reference.misaddressed

    compare()


@run
async def test_ports_are_free_again_and_nothing_is_left_open():
    async with network() as (net, _):
        ports = dict(net.ports)
        assert len(set(ports.values())) == 4
    assert net.ports == {}
    for port in ports.values():
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as again:
            again.bind(("127.0.0.1", port))
    assert len(net.tables[S1]) == 1


@run
async def test_more_hosts_than_the_machine_has_sockets_for():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with closing(socket.socket()) as probe:
        resource.setrlimit(resource.RLIMIT_NOFILE, (probe.fileno() + 10, hard))
    try:
        with pytest.raises(SetupError, match=r"h\d+: cannot open a port"):
            async with LiveNetwork(build("single:100")):
                pass
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    async with LiveNetwork(build("single:100")) as net:
        assert len(net.ports) == 100


@run
async def test_only_known_hosts_admit():
    async with network() as (net, _):
        with pytest.raises(UnknownName, match="unknown host 'h9'"):
            net.admit("h9", bytes(16), 1)


# -- what the kernel dropped -----------------------------------------------------------------------------------------


def test_drops_are_read_by_socket(tmp_path):
    source = tmp_path / "udp"
    row = "  {}: {} 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 1 2 0 {}"
    rows = [row.format(1, "0100007F:1F90", 7), row.format(2, "00000000:1F91", 3), row.format(3, "0100007F:1F92", 0)]
    source.write_text("sl local_address ... drops\n" + "\n".join(rows) + "\n")
    drops = kernel_drops(source)
    found = [dropped_at(drops, ("127.0.0.1", port)) for port in (8080, 8081, 8082, 8083)]
    assert found == [7, 3, 0, 0]


def test_where_the_system_does_not_tell_drops_are_not_known(tmp_path):
    assert kernel_drops(tmp_path / "none") is None
