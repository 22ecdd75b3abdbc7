"""OpenFlow with Open vSwitch itself: what the scripted switch of the unit tests only plays."""

import asyncio
import random
import socket
import ssl
import subprocess
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path

import pytest

from pleroma.errors import SwitchGone, SwitchRefused
from pleroma.lab import Lab, Tls
from pleroma.routing import Change, build
from pleroma.switches.openflow.connection import NO_EVENTS, Connection, ConnectionEvents
from pleroma.switches.openflow.listener import SwitchListener, tls_context
from pleroma.switches.openflow.rule import (
    CONTROLLER_PORT,
    ETH_TYPE_IPV6,
    ETH_TYPE_LLDP,
    IP_PROTO_UDP,
    Match,
    Rule,
    RuleChange,
    Send,
)

LINE = build("line:2")  # h1 - R1 - R2 - h2, hosts on port 1
PATIENCE = 60.0
COOKIE = 0x504C_0000_0000_0000
OURS = 0xFFFF_0000_0000_0000
VERSIONS = pytest.mark.parametrize(("protocol", "version"), [("OpenFlow13", 4), ("OpenFlow14", 5)])


@asynccontextmanager
async def network(protocols=("OpenFlow13", "OpenFlow14"), context=None, tls=None, events=NO_EVENTS):
    """The lab, the listener, and the connection of R1."""
    greeted: asyncio.Queue[Connection] = asyncio.Queue()
    async with SwitchListener(
        ("127.0.0.1", 0), context, greeted.put, events, idle=10, dead=PATIENCE, handshake=PATIENCE
    ) as listener:
        target = f"{'tcp' if context is None else 'ssl'}:127.0.0.1:{listener.address[1]}"
        lab = await asyncio.to_thread(Lab.up, LINE, controller=target, protocols=protocols, tls=tls)
        try:
            connection = await next_of("R1", greeted)
            yield lab, listener, connection, greeted
        finally:
            await asyncio.to_thread(lab.close)


async def next_of(switch, greeted):
    async with asyncio.timeout(PATIENCE):
        while (connection := await greeted.get()).datapath != LINE.datapath[switch]:
            pass
    return connection


async def until(true):
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0.01)


def rule(number, *, table=1, last=False):
    destination = IPv6Network(((0xFF0E << 112) | (number << 80), 48))
    sends = (Send(2), Send(1, IPv6Address(number), "02:00:00:00:00:01")) if last else (Send(2),)
    return Rule(table, 48, Match(ip_proto=IP_PROTO_UDP, destination=destination), sends, cookie=COOKIE | number)


async def read(connection):
    entries = await connection.flows(COOKIE, OURS, timeout=PATIENCE)
    assert None not in entries
    return {entry.rule for entry in entries}


@VERSIONS
def test_two_thousand_rules_in_one_bundle_come_back_as_they_were_sent(protocol, version):
    async def work():
        async with network([protocol]) as (_, _, connection, _):
            assert connection.version == version
            rules = {rule(number, last=number % 3 == 0) for number in range(2000)}
            await connection.commit([RuleChange(Change.ADD, each) for each in rules], PATIENCE)
            assert await read(connection) == rules
            sizes = await connection.table_sizes(PATIENCE)
            assert sizes[1][0] == 2000
            assert sizes[1][1] is None or sizes[1][1] >= 2000
            gone = {each for each in rules if each.cookie % 2}
            changed = {each for each in rules - gone if each.cookie % 4 == 0}
            after = {each._replace(sends=(Send(1),)) for each in changed}
            changes = [RuleChange(Change.DELETE, each) for each in gone] + [
                RuleChange(Change.MODIFY, each) for each in after
            ]
            random.Random(1).shuffle(changes)
            await connection.commit(changes, PATIENCE)
            assert await read(connection) == rules - gone - changed | after
            await connection.wipe(COOKIE, OURS, PATIENCE)
            assert await read(connection) == set()

    asyncio.run(work())


def test_of_both_versions_the_later_one_is_spoken():
    async def work():
        async with network(["OpenFlow10", "OpenFlow13", "OpenFlow14", "OpenFlow15"]) as (_, _, connection, _):
            assert connection.version == 5

    asyncio.run(work())


@VERSIONS
def test_every_shape_of_rule_comes_back_equal(protocol, version):
    async def work():
        v4 = IPv4Network("225.0.0.0/9")
        shapes = {
            Rule(0, 0, Match(), cookie=COOKIE),
            Rule(0, 9, Match(), (), goto=1, cookie=COOKIE),
            Rule(0, 10, Match(eth_type=ETH_TYPE_LLDP), (Send(CONTROLLER_PORT),), cookie=COOKIE),
            Rule(
                0, 11, Match(in_port=1, eth_type=ETH_TYPE_IPV6), (Send(1), Send(2), Send(CONTROLLER_PORT)),
                goto=3, cookie=COOKIE,
            ),
            Rule(1, 12, Match(ip_proto=IP_PROTO_UDP, destination=IPv6Network("ff0e::1/128")), cookie=COOKIE),
            Rule(1, 12, Match(destination=IPv6Network("ff0e:8000::/17")), (Send(1), Send(2)), cookie=COOKIE),
            Rule(
                1, 12, Match(ip_proto=IP_PROTO_UDP, destination=v4), (Send(1, IPv4Address("10.0.0.1")),), cookie=COOKIE
            ),
            Rule(
                1, 13, Match(destination=IPv6Network("ff0e::/16")),
                (Send(3), Send(1, IPv6Address(1), "02:00:00:00:00:01"), Send(2, IPv6Address(2), "02:00:00:00:00:02")),
                cookie=COOKIE,
            ),
            Rule(2, 1, Match(destination=IPv6Network("::/0")), (Send(2),), cookie=COOKIE | 0xFFFF),
        }  # fmt: skip
        async with network([protocol]) as (lab, _, connection, _):
            assert connection.version == version
            await connection.commit([RuleChange(Change.ADD, each) for each in shapes], PATIENCE)
            assert await read(connection) == shapes
            lab.ofctl(
                "R1", "add-flow", f"table=4,cookie={COOKIE},udp6,udp_dst=5000,actions=output:1", protocol=protocol
            )
            assert (await connection.flows(COOKIE, OURS, table=4, timeout=PATIENCE)) == [None]

    asyncio.run(work())


@VERSIONS
def test_a_refused_bundle_leaves_the_table_as_it_was(protocol, version):
    async def work():
        async with network([protocol]) as (lab, _, connection, _):
            assert connection.version == version
            limit = ("--id=@limit", "create", "flow_table", "flow_limit=5", "overflow_policy=refuse")
            lab.vsctl(*limit, "--", "set", "bridge", lab.bridge("R1"), "flow_tables:1=@limit")
            before = {rule(number) for number in range(4)}
            await connection.commit([RuleChange(Change.ADD, each) for each in before], PATIENCE)
            changes = [
                RuleChange(Change.DELETE, rule(0)),
                *(RuleChange(Change.ADD, rule(number)) for number in range(10, 20)),
            ]
            with pytest.raises(SwitchRefused) as refused:
                await connection.commit(changes, PATIENCE)
            assert (refused.value.kind, refused.value.code) == ("OFPET_FLOW_MOD_FAILED", "OFPFMFC_TABLE_FULL")
            assert refused.value.index == 3  # one has gone, two found room
            assert refused.value.value == changes[3][1]
            assert await read(connection) == before
            await connection.commit([RuleChange(Change.ADD, rule(4))], PATIENCE)
            assert await read(connection) == before | {rule(4)}

    asyncio.run(work())


@VERSIONS
def test_a_message_that_is_refused_when_it_is_added_fails_the_bundle_too(protocol, version):
    """Open vSwitch would take the messages after it for a new bundle."""

    async def work():
        async with network([protocol]) as (_, _, connection, _):
            assert connection.version == version
            bad = Rule(1, 5, Match(eth_type=ETH_TYPE_IPV6), (Send(1, IPv4Address("10.0.0.1")),), cookie=COOKIE)
            with pytest.raises(SwitchRefused) as refused:
                await connection.commit(
                    [
                        *(RuleChange(Change.ADD, rule(n)) for n in range(3)),
                        RuleChange(Change.ADD, bad),
                        RuleChange(Change.ADD, rule(9)),
                    ],
                    PATIENCE,
                )
            assert refused.value.index == 3
            assert refused.value.kind == "OFPET_BAD_ACTION"
            assert await read(connection) == set()
            await connection.commit([RuleChange(Change.ADD, rule(1))], PATIENCE)
            assert await read(connection) == {rule(1)}

    asyncio.run(work())


@VERSIONS
def test_a_port_whose_cable_is_cut_goes_down_and_comes_back(protocol, version):
    async def work():
        told = []
        events = ConnectionEvents(
            on_port_status=lambda at, port, reason: told.append((at, port.number, port.up, reason))
        )
        async with network([protocol], events=events) as (lab, _, connection, _):
            assert connection.version == version
            await until(lambda: connection.ports[1].up)
            await asyncio.to_thread(lab.cut, LINE.find_host("h1"))
            await until(lambda: not connection.ports[1].up)
            assert (connection, 1, False, "modify") in told
            await asyncio.to_thread(lab.mend, LINE.find_host("h1"))
            await until(lambda: connection.ports[1].up)

    asyncio.run(work())


@VERSIONS
def test_packets_come_up_and_go_down(protocol, version):
    async def work():
        arrived = []
        events = ConnectionEvents(on_packet_in=lambda _, packet: arrived.append(packet))
        async with network([protocol], events=events) as (lab, _, connection, _):
            assert connection.version == version
            up = Rule(
                0,
                7,
                Match(1, None, IP_PROTO_UDP, IPv6Network("ff0e::/16")),
                (Send(CONTROLLER_PORT),),
                cookie=COOKIE | 5,
            )
            await connection.commit([RuleChange(Change.ADD, up)], PATIENCE)
            with lab.inside("h1"):
                sending = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
                listening = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_TYPE_LLDP))
            with sending, listening:
                listening.setblocking(False)
                payload = b"up" * 600
                async with asyncio.timeout(PATIENCE):
                    while not arrived:
                        sending.sendto(payload, ("ff0e::1", 5000))
                        await asyncio.sleep(0.05)
                    packet = arrived[0]
                    assert (packet.in_port, packet.table, packet.cookie) == (1, 0, COOKIE | 5)
                    assert packet.data.endswith(payload)
                    frame = bytes.fromhex("0180c200000e02000000000188cc") + b"down" * 12
                    received = b""
                    while received != frame:
                        connection.packet_out(1, frame)
                        await asyncio.sleep(0.02)
                        try:
                            received = listening.recv(2000)
                        except BlockingIOError:
                            continue

    asyncio.run(work())


def test_a_switch_that_is_killed_is_gone_and_comes_back_on_a_new_connection():
    async def work():
        async with network() as (lab, _, connection, greeted):
            await connection.commit([RuleChange(Change.ADD, rule(1))], PATIENCE)
            await asyncio.to_thread(lab.kill_switches)
            await until(lambda: connection.closed)
            with pytest.raises(SwitchGone):
                await connection.barrier(PATIENCE)
            await asyncio.to_thread(lab.start_switches)
            again = await next_of("R1", greeted)
            assert again is not connection
            assert await read(again) == set()

    asyncio.run(work())


# -- TLS -------------------------------------------------------------------------------------------------------------


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=PATIENCE)


def certificate(folder: Path, name: str, authority: Path | None = None) -> tuple[Path, Path]:
    """(key, certificate), signed by itself or by an authority made here."""
    key, certified, request = (folder / f"{name}.{kind}" for kind in ("key", "pem", "csr"))
    curve = (
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-keyout",
        key,
        "-subj",
        f"/CN={name}",
    )
    if authority is None:
        openssl("req", "-x509", *curve, "-days", 2, "-out", certified)
    else:
        openssl("req", "-new", *curve, "-out", request)
        signer = ("-CA", authority, "-CAkey", authority.with_suffix(".key"), "-CAcreateserial")
        openssl("x509", "-req", "-in", request, *signer, "-days", 2, "-out", certified)
    return key, certified


def test_with_certificates_of_one_authority_both_sides_talk(tmp_path):
    async def work():
        _, authority = certificate(tmp_path, "authority")
        key, shown = certificate(tmp_path, "controller", authority)
        tls = Tls(*certificate(tmp_path, "switch", authority), authority)
        async with network(context=tls_context(shown, key, authority), tls=tls) as (_, _, connection, _):
            rules = {rule(number, last=True) for number in range(500)}
            await connection.commit([RuleChange(Change.ADD, each) for each in rules], PATIENCE)
            assert await read(connection) == rules

    asyncio.run(work())


def test_a_switch_with_a_certificate_of_another_authority_gets_nowhere(tmp_path):
    async def work():
        _, authority = certificate(tmp_path, "authority")
        _, other = certificate(tmp_path, "other")
        key, shown = certificate(tmp_path, "controller", authority)
        stranger_key, stranger = certificate(tmp_path, "stranger", other)
        greeted: asyncio.Queue[Connection] = asyncio.Queue()
        async with SwitchListener(("127.0.0.1", 0), tls_context(shown, key, authority), greeted.put) as listener:
            refused = 0
            for chain in ((stranger, stranger_key), None):
                context = ssl.create_default_context(cafile=authority)
                context.check_hostname = False
                if chain is not None:
                    context.load_cert_chain(*chain)
                try:
                    reader, writer = await asyncio.open_connection(*listener.address, ssl=context)
                except (ssl.SSLError, ConnectionError):
                    refused += 1
                    continue
                try:
                    assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
                except (ssl.SSLError, ConnectionError):
                    pass
                finally:
                    refused += 1
                    writer.close()
                    await asyncio.gather(writer.wait_closed(), return_exceptions=True)
            assert refused == 2
            assert greeted.empty()
            assert not listener.connections

    asyncio.run(work())
