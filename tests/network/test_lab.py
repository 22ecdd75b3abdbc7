"""Labs of real switches: they carry packets, break where told to, keep apart, and leave nothing behind."""

import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from pleroma.errors import SetupError, UnknownName
from pleroma.experiments.demonstration.running_controller import open_vswitch
from pleroma.lab import Lab, Tls, records, registry
from pleroma.lab.lab_names import prefix, random_lab
from pleroma.lab.namespaces import found, ip
from pleroma.routing import Host, Link, Topology, build
from support.waiting import wait_until

LINE = build("line:2")  # h1 - R1 - R2 - h2, hosts on port 1


def root_interfaces():
    return {name for _, name in socket.if_nameindex()}


def left_of(name):
    """Everything by which a lab could still be noticed."""
    living = [p for p in registry.marked(name) if registry._began(p) is not None]
    return found(prefix(name)), living, [p for p in (registry.LABS_FOLDER / name,) if p.exists()]


NOTHING = ([], [], [])


def receiver(lab, host, address):
    with lab.inside(host):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_DGRAM)
    listening.bind((address, 5000))
    listening.settimeout(0.2)
    return listening


def arrives(lab, sender, group, listening, seconds=20):
    """Sends until something comes; what came, or None."""
    with lab.inside(sender):
        family = socket.AF_INET6 if ":" in group else socket.AF_INET
        sending = socket.socket(family, socket.SOCK_DGRAM)
    limit = time.monotonic() + seconds
    with sending:
        while time.monotonic() < limit:
            sending.sendto(b"an event", (group, 5000))
            try:
                return listening.recv(100)
            except TimeoutError:
                continue
    return None


def carry(lab, topology=LINE, match="udp6,ipv6_dst=ff0e::/16", field="ipv6_dst"):
    """By hand: what h1 sends to the group goes to h2, with its address and its card's."""
    h2 = topology.find_host("h2")
    lab.ofctl("R1", "add-flow", f"{match},actions=output:2")
    rewrite = f"set_field:{h2.address}->{field},set_field:{h2.ethernet}->eth_dst"
    lab.ofctl("R2", "add-flow", f"{match},actions={rewrite},output:1")


def port_states(lab, switch):
    """{number: its lines of `ovs-ofctl show`}, without the port of the bridge itself."""
    states, number = {}, None
    for line in lab.ofctl(switch, "show").splitlines():
        head = line.strip().partition("(")[0]
        if "addr:" in line:
            number = int(head) if head.isdigit() else None
        if number is not None and "OFPT" not in line:
            states.setdefault(number, []).append(line.strip())
    return {number: " ".join(lines) for number, lines in states.items()}


def datapath(lab, switch):
    return int(lab.ofctl(switch, "show").partition("dpid:")[2][:16], 16)


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        yield server


def target(listener, kind="tcp"):
    return f"{kind}:127.0.0.1:{listener.getsockname()[1]}"


def test_the_testbed_comes_up_as_it_is_drawn():
    topology = build("testbed")
    with Lab.up(topology, controller=None) as lab:
        for switch in topology.switches:
            assert tuple(port_states(lab, switch)) == topology.ports[switch]
            assert datapath(lab, switch) == topology.datapath[switch]
            assert lab.flows(switch) == []
        for host in topology.hosts:
            [card] = [
                each
                for each in json.loads(
                    lab.run(host.name, ["ip", "-j", "address"], capture_output=True, check=True).stdout
                )
                if each["ifname"] == "eth0"
            ]
            assert card["address"] == host.ethernet
            assert [a["local"] for a in card["addr_info"]] == [host.address]
    assert left_of(lab.name) == NOTHING


def test_an_event_crosses_two_switches_and_arrives_rewritten():
    with Lab.up(LINE, controller=None) as lab, receiver(lab, "h2", "fd00::2") as listening:
        assert arrives(lab, "h1", "ff0e:400::", listening, seconds=1) is None
        carry(lab)
        assert arrives(lab, "h1", "ff0e:400::", listening) == b"an event"


def test_hosts_may_have_ipv4_addresses():
    topology = Topology(
        LINE.switches,
        (Host("h1", "R1", 1, "10.0.0.1"), Host("h2", "R2", 1, "10.1.0.2")),
        LINE.links,
    )
    with Lab.up(topology, controller=None) as lab, receiver(lab, "h2", "10.1.0.2") as listening:
        carry(lab, topology, "udp,ip_dst=225.128.0.0/9", "ip_dst")
        assert arrives(lab, "h1", "225.129.1.1", listening) == b"an event"


def test_two_labs_at_once_do_not_meet():
    before = root_interfaces()
    with Lab.up(LINE, controller=None) as one, Lab.up(LINE, controller=None) as two:
        carry(one)
        with receiver(one, "h2", "fd00::2") as here, receiver(two, "h2", "fd00::2") as there:
            assert arrives(one, "h1", "ff0e::1", here) == b"an event"
            assert arrives(two, "h1", "ff0e::1", there, seconds=1) is None
        assert two.flows("R1") == []
        assert {one.name, two.name} <= {record.name for record in records()}
        assert root_interfaces() == before
    assert left_of(one.name) == left_of(two.name) == NOTHING


def test_a_name_is_given_once():
    with Lab.up(LINE, controller=None) as lab:
        with pytest.raises(SetupError, match=f"there is a lab called {lab.name}"):
            Lab.up(LINE, controller=None, name=lab.name)
        assert lab.flows("R1") == []


def where():
    return os.stat("/proc/thread-self/ns/net").st_ino


def test_only_the_thread_that_is_inside_is_inside():
    with Lab.up(LINE, controller=None) as lab, ThreadPoolExecutor(1) as other:
        home = other.submit(where).result()
        with lab.inside("h1"):
            assert where() == os.stat(f"/run/netns/{lab.namespace('h1')}").st_ino != home
            assert other.submit(where).result() == home
        assert where() == home
        with pytest.raises(UnknownName), lab.inside("h7"):
            pass


def test_a_cut_cable_is_seen_at_both_ends_and_can_be_mended():
    [link] = LINE.links
    with Lab.up(LINE, controller=None) as lab, receiver(lab, "h2", "fd00::2") as listening:
        carry(lab)
        assert arrives(lab, "h1", "ff0e::1", listening) == b"an event"

        def down(switch, port):
            return "LINK_DOWN" in port_states(lab, switch)[port]

        lab.cut(link)
        wait_until(lambda: down("R1", 2) and down("R2", 2), "both ends see the cut")
        assert not down("R1", 1)
        while True:
            try:
                listening.recv(100)  # what was under way
            except TimeoutError:
                break
        assert arrives(lab, "h1", "ff0e::1", listening, seconds=1) is None
        lab.mend(link)
        wait_until(lambda: not down("R1", 2) and not down("R2", 2), "both ends see it mended")
        assert arrives(lab, "h1", "ff0e::1", listening) == b"an event"
        lab.cut(LINE.find_host("h1"))
        wait_until(lambda: down("R1", 1), "a host can be cut off too")


def test_a_bridge_that_was_dropped_comes_back_empty_with_the_same_ports():
    topology = build("star:3")
    with Lab.up(topology, controller=None) as lab:
        lab.ofctl("R1", "add-flow", "priority=5,actions=drop")
        lab.drop_bridge("R1")
        lab.set_controller(None)  # for those that are there
        with pytest.raises(SetupError):
            lab.flows("R1")
        assert lab.flows("R2") == []
        lab.restore_bridge("R1")
        assert tuple(port_states(lab, "R1")) == topology.ports["R1"]
        assert datapath(lab, "R1") == topology.datapath["R1"]
        assert lab.flows("R1") == []


def test_a_port_that_open_vswitch_cannot_use_is_an_error():
    with Lab.up(LINE, controller=None) as lab:
        lab.drop_bridge("R1")
        ip(["link delete R1-p2"], lab.names.net)
        with pytest.raises(SetupError, match=r"^R1-p2: Open vSwitch could not use it: .*No such device"):
            lab.restore_bridge("R1")


def test_killed_switches_come_back_empty_with_the_same_ports():
    with Lab.up(LINE, controller=None) as lab:
        carry(lab)
        lab.kill_switches()
        with pytest.raises(SetupError):
            lab.flows("R1")
        lab.start_switches()
        for switch in LINE.switches:
            assert lab.flows(switch) == []
            assert tuple(port_states(lab, switch)) == LINE.ports[switch]
        carry(lab)
        with receiver(lab, "h2", "fd00::2") as listening:
            assert arrives(lab, "h1", "ff0e::1", listening) == b"an event"


def test_a_full_table_refuses_rules_and_another_does_not():
    with Lab.up(LINE.with_limit(2), controller=None, limited_table=1) as lab:
        for number in range(4):
            lab.ofctl("R1", "add-flow", f"table=0,priority={number},actions=drop")
        for number in range(2):
            lab.ofctl("R1", "add-flow", f"table=1,priority={number},actions=drop")
        with pytest.raises(SetupError, match="TABLE_FULL"):
            lab.ofctl("R1", "add-flow", "table=1,priority=9,actions=drop")
        assert len(lab.flows("R1")) == 6


def test_every_switch_finds_a_controller_on_the_loopback_of_the_machine(listener):
    with Lab.up(LINE, controller=target(listener)) as lab:
        said = [_hello(listener) for _ in LINE.switches]
        assert {hello[0] for hello in said} == {5}  # the newest version it has: OpenFlow 1.4
        with socket.create_server(("127.0.0.1", 0)) as other:
            other.settimeout(60)
            lab.set_controller(target(other))
            for _ in LINE.switches:
                assert _hello(other)[1] == 0


def test_a_controller_that_comes_late_is_found(listener):
    port = listener.getsockname()[1]
    listener.close()
    with Lab.up(LINE, controller=f"tcp:127.0.0.1:{port}"):
        time.sleep(0.5)
        with socket.create_server(("127.0.0.1", port)) as late:
            late.settimeout(60)
            assert _hello(late)[1] == 0


def test_a_controller_that_goes_away_is_missed_and_a_large_answer_arrives_whole(listener):
    """What the proxy does: bytes in order both ways, and an end at one side is an end at the other."""
    with Lab.up(build("single:1"), controller=target(listener)) as lab:
        lab.vsctl("set", "controller", lab.bridge("R1"), "inactivity_probe=0")  # it has no other way to find out
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(60)
            connection.sendall(bytes([5, 0, 0, 8, 0, 0, 0, 1]))
            echo = bytes([5, 2]) + (60_000).to_bytes(2) + bytes(4) + os.urandom(60_000 - 8)
            connection.sendall(echo * 10)
            got = b""
            wanted = (echo[:1] + b"\3" + echo[2:]) * 10
            while wanted not in got:
                more = connection.recv(65536)
                assert more
                got += more
        assert _hello(listener)[1] == 0  # the switch has seen the end, and comes again


def _hello(listener):
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(60)
        return connection.recv(8)


def test_switches_and_controller_know_each_other_by_certificates(tmp_path, listener):
    authority = _certificate(tmp_path, "authority")
    switches, controller = (_certificate(tmp_path, who, authority) for who in ("switches", "controller"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(controller[1], controller[0])
    context.load_verify_locations(authority[1])
    context.verify_mode = ssl.CERT_REQUIRED
    tls = Tls(switches[0], switches[1], authority[1])
    with Lab.up(LINE, controller=target(listener, "ssl"), tls=tls):
        raw, _ = listener.accept()
        raw.settimeout(60)
        with context.wrap_socket(raw, server_side=True) as connection:
            assert connection.recv(8)[1] == 0
            assert ("commonName", "switches") in [pair for [pair] in connection.getpeercert()["subject"]]


def _certificate(folder, who, authority=None):
    key, certificate = folder / f"{who}.key", folder / f"{who}.pem"
    signed = ["-CAkey", authority[0], "-CA", authority[1]] if authority else []
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-subj", f"/CN={who}", "-days", "2", "-keyout", key, "-out", certificate, *signed]
    subprocess.run(command, check=True, capture_output=True)
    return key, certificate


STRANGE = ("net", "a" * 200, "naïve ☃/../host", "-n", "with space; rm", "h1", ".", "host1")


def test_hosts_and_switches_may_be_called_anything():
    switches = ("lo", "all", "-x", "a switch of a very long name", "ü", "s3", "R1-p1", "ovs-netdev")
    topology = Topology(
        switches,
        tuple(Host(name, switches[i], 1, f"fd00::{i + 1}") for i, name in enumerate(STRANGE)),
        tuple(Link(a, 2, b, 65279) for a, b in pairwise(switches)),
    )
    with Lab.up(topology, controller=None) as lab:
        assert [record.hosts for record in records() if record.name == lab.name] == [lab.names.hosts]
        for host in topology.hosts:
            done = lab.run(
                host.name, ["ip", "-o", "address", "show", "eth0"], capture_output=True, text=True, check=True
            )
            assert f"{host.address}/64" in done.stdout
        for switch in switches:
            assert tuple(port_states(lab, switch)) == topology.ports[switch]
    assert left_of(lab.name) == NOTHING


def test_closing_ends_what_runs_at_a_host():
    with Lab.up(LINE, controller=None) as lab:
        sleeper = lab.popen("h1", ["sleep", "1000"])
    assert sleeper.wait(30) == -signal.SIGKILL


KILLED = """
import os, signal, sys
from pleroma.lab import Lab
from pleroma.lab.daemons import Daemons
from pleroma.lab import namespaces, veth_links
from pleroma.routing import build
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
name, point = sys.argv[1:]
if point == "claimed":
    namespaces.add = die
elif point == "namespaces":
    veth_links.cables = die
elif point == "database":
    Daemons.join = die
elif point == "proxy":
    Daemons.start_switches = die
lab = Lab.up(build("line:3"), name=name)
lab.popen("h1", ["sleep", "1000"])
die()
"""


@pytest.mark.parametrize("point", ["claimed", "namespaces", "database", "proxy", "whole"])
def test_what_a_killed_process_leaves_is_found_and_removed(point):
    name, before = random_lab(), root_interfaces()
    try:
        done = subprocess.run([sys.executable, "-c", KILLED, name, point], check=False, timeout=60)
        assert done.returncode == -signal.SIGKILL
        # another test's Lab.up may have found it first
        assert [record.stale for record in records() if record.name == name] in ([True], [])
        with Lab.up(build("single:1"), controller=None):
            wait_until(lambda: left_of(name) == NOTHING, "nothing is left")
    finally:
        Lab.down(name)
    assert root_interfaces() == before


def test_a_lab_that_fails_to_come_up_leaves_nothing():
    name = random_lab()
    with pytest.raises(SetupError, match=r"controller: is written like tcp:127\.0\.0\.1:6653"):
        Lab.up(LINE, name=name, controller="udp:nowhere")
    with pytest.raises(SetupError, match="controller: ssl takes"):
        Lab.up(LINE, name=name, controller="ssl:127.0.0.1:6653")
    assert left_of(name) == NOTHING
    assert Lab.down(name) is False


def pleroma(*arguments):
    command = [sys.executable, "-m", "pleroma.cli", "lab", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])


def test_the_commands_bring_up_use_list_and_remove_a_lab():
    name = random_lab()
    try:
        done = pleroma("up", "line:2", "--name", name, "--controller", "none", "--json")
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout.splitlines()[-1])
        assert answer["hosts"]["h2"] == {
            "namespace": f"pl-{name}-h2",
            "address": "fd00::2",
            "ethernet": LINE.find_host("h2").ethernet,
        }
        with Lab.up(LINE, controller=None):  # what is up for good is not taken for left behind
            pass
        there = pleroma("exec", "--name", name, "h2", "ip", "-o", "address", "show", "dev", "eth0")
        assert "fd00::2/64" in there.stdout
        assert pleroma("exec", "--name", name, "h2", "--", "sh", "-c", "exit 7").returncode == 7
        assert "unknown host 'h3'" in pleroma("exec", "--name", name, "h3", "true").stderr
        assert pleroma("exec", "--name", name, "h2", "no-such-program").stderr.startswith("error: no-such-program: ")
        labs = json.loads(pleroma("list", "--json").stdout)["labs"]
        assert [(each["stale"], each["owner"]) for each in labs if each["name"] == name] == [(False, None)]
        gone = pleroma("down", "--name", name)
        assert gone.returncode == 0, gone.stderr
        assert left_of(name) == NOTHING
        again = pleroma("down", "--name", name)
        assert again.returncode == 2
        assert len(again.stderr.splitlines()) == 1
    finally:
        Lab.down(name)


def test_a_lab_of_the_command_line_knows_several_controllers():
    name = random_lab()
    try:
        targets = ["--controller", "tcp:127.0.0.1:6653", "--controller", "tcp:127.0.0.1:6654"]
        done = pleroma("up", "line:2", "--name", name, *targets)
        assert done.returncode == 0, done.stderr
        assert "tcp:127.0.0.1:6653, tcp:127.0.0.1:6654" in done.stdout
        lab = Lab.find(next(record for record in registry.records() if record.name == name))
        for switch in LINE.switches:
            assert len(lab.vsctl("get-controller", lab.bridge(switch)).split()) == 2
    finally:
        Lab.down(name)


def test_a_controller_on_open_vswitch_that_is_stopped_says_nothing(capfd):
    async def begin_and_end():
        async with open_vswitch("line:2") as running, httpx.AsyncClient() as client:
            assert (await client.get(f"{running.url}/health")).json()["status"] == "ok"

    asyncio.run(begin_and_end())
    assert "lost" not in capfd.readouterr().err
