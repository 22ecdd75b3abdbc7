"""A controller on real switches, the same requests to simulated ones, and sockets at the hosts, for tests/network.

The controller runs in a thread of its own, so that a test can be written down line by line: ask, send, look.
"""

import asyncio
import json
import re
import selectors
import socket
import subprocess
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from ipaddress import ip_network
from random import Random

from pleroma.content import Category, Filter, Integer, Real, Schema
from pleroma.content.filter_json import to_json
from pleroma.control import ControlSettings, ControlState, CreatePrincipal, CreateSchema, Done, Register, Withdraw
from pleroma.errors import NotInstalled
from pleroma.index.address import IPV6
from pleroma.lab import Lab
from pleroma.routing import Change, Flow, FlowOp, FlowTable, Output
from pleroma.service.planes.openflow_plane import OpenFlowSettings, over_openflow
from pleroma.switches import EmbeddedNetwork, Packet
from pleroma.switches.openflow.agent import SwitchTimeouts
from pleroma.wire import Codec, EventPacket
from pleroma.wire.ports import EVENTS_PORT
from support import routing_oracle
from support.control_cases import DIGEST

SO_RCVBUFFORCE = 33  # which the socket module does not name
LIMIT = 60.0
"""Seconds after which a test no longer believes that something will happen."""
STEADY = SwitchTimeouts(answer=20, audit=60, grace=60)
"""Nothing is expected to fail, and a slow machine is no failure."""
HASTY = SwitchTimeouts(answer=3, audit=0.5, grace=1.5, dead=3)
"""Something will fail, and is to be noticed soon."""

SKIES = ("sun", "rain", "snow")
WEATHER = Schema(
    "weather", (Real("temperature", False, -20, 40), Integer("wind", False, 0, 63), Category("sky", True, SKIES))
)
ROOT = CreatePrincipal("root", "admin", DIGEST)
BEGINNING = (CreateSchema(WEATHER), ROOT)


def until(true, what, seconds=LIMIT):
    """Wait for something, and return it."""
    limit = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < limit, f"in vain: {what() if callable(what) else what}"
        time.sleep(0.02)
    return found


def with_ipv4(topology):
    hosts = (replace(h, address=f"10.0.0.{number}") for number, h in enumerate(topology.hosts, 1))
    return replace(topology, hosts=tuple(hosts))


def free_port():
    """Below those that the system gives away by itself, so that it is still free a moment later, or a minute."""
    while True:
        port = Random().randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


# -- what is asked ---------------------------------------------------------------------------------------------------


def advertise(host, text, schema=WEATHER):
    return Register("advertisement", "root", host, schema.name, to_json(Filter.parse(schema, text)))


def subscribe(host, text, schema=WEATHER):
    return Register("subscription", "root", host, schema.name, to_json(Filter.parse(schema, text)))


def random_filter(draw, widest=0.6):
    """Text of a box, and now and then of two."""
    parts = []
    for _ in range(draw.choice((1, 1, 1, 2))):
        low, wind = draw.uniform(-20, 35), draw.randrange(60)
        high = min(low + draw.uniform(1, 60 * widest), 40)
        conditions = [
            f"temperature >= {low:.1f} and temperature < {high:.1f}",
            f"wind between {wind} and {min(wind + draw.randrange(40), 63)}",
            f'sky = "{draw.choice(SKIES)}"',
        ]
        parts.append(" and ".join(draw.sample(conditions, draw.randint(1, 3))))
    return " or ".join(f"({part})" for part in parts)


def random_event(draw):
    sky = draw.choice((*SKIES, None))
    return WEATHER.event(temperature=draw.uniform(-20, 40), wind=draw.randrange(64), sky=sky)


# -- the same in a simulated network ---------------------------------------------------------------------------------


class Mirror:
    """Follows the same requests, and tells what the real network has to look like."""

    def __init__(self, topology, settings):
        self.state = ControlState(topology, settings)
        self.network = EmbeddedNetwork(topology)
        self._follows = True
        self._position = 1  # what a log begins with

    def apply(self, command):
        self._position += 1
        done = self.state.apply(self._position, command)
        assert isinstance(done, Done), done
        if self._follows:
            self.network.install(done.flows)
        return done.value

    def adopt(self, tables):
        """After a failure: which tree is used then depends on the order in which it was noticed."""
        self._follows = False
        self.network = EmbeddedNetwork(self.state.topology)
        self.network.install(FlowOp(s, Change.ADD, flow) for s, table in tables.items() for flow in table)

    @property
    def tables(self):
        return self.network.flow_tables()

    @property
    def admitted(self):
        hosts = self.state.topology.host
        cells = {(hosts[h].switch, hosts[h].port): self.state.rules.admissions.of(h) for h in hosts}
        return {place: dzs for place, dzs in cells.items() if dzs}

    def dz(self, event):
        entry = self.state.schemas[event.schema.name]
        return entry.prefix.then(entry.index.dz(event))

    def receivers(self, host, event):
        """The hosts that an event comes to by the rules, once for each time that it does."""
        dz = self.dz(event)
        if not self.state.rules.admissions.admits(host, dz):
            return []
        self.network.publish(host, Packet(dz))
        return [delivery.host for delivery in self.network.run()]

    def wanting(self, host, event):
        """The hosts that must get an event, which is a matter of filters alone: whoever advertised it is heard."""
        there = [r for r in self.state.registrations.values() if r.schema == event.schema.name]
        covered = any(r.kind == "advertisement" and r.host == host and r.filter.matches(event) for r in there)
        if not covered:
            return set()
        return {r.host for r in there if r.kind == "subscription" and r.filter.matches(event)} - {host}


# -- what the switches have ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """A rule as `ovs-ofctl dump-flows` writes it."""

    table: int
    priority: int
    cookie: int
    packets: int
    in_port: int | None
    destination: str | None
    actions: str

    @classmethod
    def parse(cls, text):
        def number(name):
            found = re.search(rf"\b{name}=(0x[0-9a-f]+|\d+)", text)
            return int(found[1], 0) if found else None

        said = re.search(r"(?:ipv6_dst|nw_dst)=([^ ,]+)", text)
        priority = number("priority")
        return cls(
            number("table") or 0,
            32768 if priority is None else priority,
            number("cookie") or 0,
            number("n_packets"),
            number("in_port"),
            said[1] if said else None,
            text.split("actions=")[1],
        )

    def dz(self, addresses):
        return addresses.dz(ip_network(self.destination))

    @property
    def outputs(self):
        """A field that was set stays so for the outputs after it."""
        address, made = None, []
        for action in self.actions.split(","):
            if found := re.fullmatch(r"set_field:(.+)->(?:ipv6_dst|ip_dst)|mod_nw_dst:(.+)", action):
                address = found[1] or found[2]
            elif found := re.fullmatch(r"output:(\d+)", action):
                made.append(Output(int(found[1]), address))
            else:
                assert "->eth_dst" in action or "mod_dl_dst" in action, action
        return tuple(sorted(made, key=lambda output: output.port))


class Switches:
    """Reads the tables of real switches, without asking the controller."""

    OURS = 0x504C524D

    def __init__(self, lab, addresses):
        self.lab = lab
        self.addresses = addresses

    def lines(self, switch, table=None):
        found = [Line.parse(text) for text in self.lab.flows(switch)]
        return [line for line in found if table in (None, line.table) and line.cookie >> 32 == self.OURS]

    @property
    def tables(self):
        return {s: self.table(s) for s in self.lab.topology.switches}

    def table(self, switch):
        flows = []
        for line in self.lines(switch, 1):
            flow = Flow(line.dz(self.addresses), line.outputs)
            assert line.priority == 100 + flow.priority, line
            flows.append(flow)
        assert len({flow.dz for flow in flows}) == len(flows)
        return FlowTable(flows)

    def count(self):
        """Have Open vSwitch add what its fast path forwarded to the counters of the rules."""
        subprocess.run(
            ["ovs-appctl", "-t", self.lab.folder / "switches.ctl", "revalidator/wait"], check=True, timeout=LIMIT
        )

    @property
    def hits(self):
        """How many packets each rule has forwarded."""
        self.count()
        return {
            (s, line.dz(self.addresses)): line.packets for s in self.lab.topology.switches for line in self.lines(s, 1)
        }

    def admitted(self, switches=None):
        """The cells that are let in at the ports of hosts."""
        found = {}
        for switch in switches or self.lab.topology.switches:
            ports = {host.port for host in self.lab.topology.hosts_of[switch]}
            for line in self.lines(switch, 0):
                if line.in_port in ports:
                    assert line.actions == "goto_table:1"
                    found.setdefault((switch, line.in_port), set()).add(line.dz(self.addresses))
        return found

    def dropped(self, switch):
        """The packets that hosts were not allowed to send."""
        self.count()
        return sum(line.packets for line in self.lines(switch, 0) if line.actions == "drop")


# -- hosts -----------------------------------------------------------------------------------------------------------


class Hosts:
    """A socket for sending and one for receiving at each host."""

    def __init__(self, lab, addresses):
        self._addresses = addresses
        self._selector = selectors.DefaultSelector()
        self._senders = {}
        self._sent = 0
        v6 = addresses.base.version == 6
        for host in lab.topology.hosts:
            with lab.inside(host.name):
                family = socket.AF_INET6 if v6 else socket.AF_INET
                sender, receiver = socket.socket(family, socket.SOCK_DGRAM), socket.socket(family, socket.SOCK_DGRAM)
                card = socket.if_nametoindex("eth0")
            if v6:
                sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, card)
            else:
                sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(host.address))
            receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
            receiver.bind((host.address, EVENTS_PORT))
            receiver.setblocking(False)
            self._senders[host.name] = sender
            self._selector.register(receiver, selectors.EVENT_READ, host.name)

    def close(self):
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()
        self._selector.close()
        for sender in self._senders.values():
            sender.close()

    def send(self, host, dz, payload):
        self._senders[host].sendto(payload, (str(self._addresses.address(dz)), EVENTS_PORT))

    def received(self, seconds):
        """(host, payload) of all that is there, waiting so long for the first."""
        return [(key.data, payload) for key, _ in self._selector.select(seconds) for payload in _waiting(key.fileobj)]

    def gather(self, expected, seconds=LIMIT):
        """What comes: until all is there that is expected, or nothing more can be, and a little longer for the rest."""
        found, limit = Counter(), time.monotonic() + seconds
        while expected - found and time.monotonic() < limit:
            found.update(self.received(0.1))
        while more := self.received(0.05):
            found.update(more)
        return found


def _waiting(receiver):
    while True:
        try:
            yield receiver.recv(2000)
        except BlockingIOError:
            return


class Stream(threading.Thread):
    """Sends numbered events from one host, all the time, until told to end."""

    def __init__(self, made, host, event):
        super().__init__(name="stream")
        self.sent = 0
        self._over = threading.Event()
        self._send = lambda payload: made.hosts.send(host, made.mirror.dz(event), payload)

    def run(self):
        while not self._over.wait(0.002):
            self._send(b"%d" % self.sent)
            self.sent += 1

    def go_on(self, count):
        """Return when so many more were sent."""
        enough = self.sent + count
        until(lambda: self.sent >= enough, "events flow")

    def end(self):
        self._over.set()
        self.join()

    @property
    def payloads(self):
        return [b"%d" % number for number in range(self.sent)]


# -- all of it -------------------------------------------------------------------------------------------------------


class World:
    """`submit` and what hosts do go to both networks, the real one and the simulated one."""

    def __init__(self, topology, folder, port, settings, control):
        self.topology = topology
        self.mirror = Mirror(topology, control)
        self._folder = folder
        self._settings = replace(settings, listen=("127.0.0.1", port))
        self._control = control
        self._sequence = 0
        self._codec = Codec(WEATHER, 0)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="controller")
        self._thread.start()
        self._stop = self._serving = self.lab = None
        self._changed = False
        self._ready = threading.Event()

    def move_in(self, lab):
        self.lab = lab
        self.switches = Switches(lab, self._settings.addresses)
        self.hosts = Hosts(lab, self._settings.addresses)

    # the controller

    def listen(self):
        """Begin to start the controller, which waits for its switches."""
        self._ready.clear()
        self._stop = asyncio.Event()
        self._serving = asyncio.run_coroutine_threadsafe(self._serve(), self._loop)

    def start(self):
        """Returns when the controller has told the switches all it knows."""
        if self._serving is None:
            self.listen()
        until(lambda: self._ready.is_set() or self._serving.done(), "the controller starts")
        if self._serving.done():
            self._serving.result()

    async def _serve(self):
        async with over_openflow(self._folder, self.topology, self._control, self._settings) as there:
            self.controller, self.plane = there
            self.network = self.plane.network
            self._ready.set()
            await self._stop.wait()

    def stop(self):
        if self._serving is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._serving.result(LIMIT)
            self._serving = None

    def close(self):
        try:
            self.stop()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            if self.lab is not None:
                self.hosts.close()

    def run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT)

    # requests

    def begin(self, *commands):
        """All at once, in this order."""

        async def all_of_them():
            return await asyncio.gather(*map(self.controller.submit, commands), return_exceptions=True)

        return asyncio.run_coroutine_threadsafe(all_of_them(), self._loop), commands

    def finish(self, begun, patient=False):
        """What was answered; a network that is behind is an answer too, for the `patient`."""
        self._changed = True
        waiting, commands = begun
        done = waiting.result(LIMIT)
        simulated = [self.mirror.apply(command) for command in commands]
        for each, value in zip(done, simulated, strict=True):
            if isinstance(each, Exception) and not (patient and isinstance(each, NotInstalled)):
                raise each
            assert isinstance(each, NotInstalled) or each.value == value
        return simulated

    def submit(self, *commands, patient=False):
        return self.finish(self.begin(*commands), patient)

    def withdraw(self, *ids, patient=False):
        return self.submit(*(Withdraw(each, "root") for each in ids), patient=patient)

    def follow(self, state):
        """Have the simulated network know what a controller knows."""
        for command in BEGINNING:
            self.mirror.apply(command)
        for each in state.registrations.values():
            self.mirror.apply(Register(each.kind, each.principal, each.host, each.schema, json.loads(each.boxes)))

    # events

    def publish(self, *events):
        """(host, event) each. Returns what came, what comes by the rules, and what must come: (host, sequence) each.

        Open vSwitch confirms rules before its fast path follows them: after a change that is waited for.
        """
        if self._changed:
            self._changed = False
            self.switches.count()
        expected, must = Counter(), set()
        for host, event in events:
            self._sequence += 1
            payload = self._codec.encode(EventPacket(1, 0, 7, self._sequence, time.time_ns(), event))
            expected.update((there, payload) for there in self.mirror.receivers(host, event))
            must.update((there, self._sequence) for there in self.mirror.wanting(host, event))
            self.hosts.send(host, self.mirror.dz(event), payload)
        found = self.hosts.gather(expected)
        return self._numbered(found), self._numbered(expected), must

    def _numbered(self, packets):
        return Counter({(host, self._codec.decode(data).sequence): n for (host, data), n in packets.items()})

    def check(self, *events):
        """Every event exactly once, to all who want it and to nobody whom the rules do not name."""
        found, expected, must = self.publish(*events)
        assert found == expected
        assert must <= set(found), "an event is missing"
        assert all(count == 1 for count in found.values())
        return found

    # the state of things

    @property
    def status(self):
        return self.network.status()

    def until_right(self, there=None):
        """All switches that stand have exactly the rules for what is `there`, which is everything if not said."""
        there = there or self.topology
        standing = [s for s in self.topology.switches if s in there.switches]
        admitted = {place: cells for place, cells in self.mirror.admitted.items() if place[0] in standing}

        def is_right():
            router, tables = self.run(self._wanted())
            now = router.topology
            return (
                all(self.status[s]["state"] == "ready" for s in standing)
                and (set(now.links), set(now.hosts)) == (set(there.links), set(there.hosts))
                and all(self.switches.table(s) == tables[s] for s in standing)
                and self.switches.admitted(standing) == admitted
            )

        def wrong():
            router, tables = self.run(self._wanted())
            real = {s: self.switches.table(s) for s in standing}
            different = {s: (real[s], tables[s]) for s in standing if real[s] != tables[s]}
            return self.network.presence, router.topology, self.status, different

        until(is_right, wrong)
        self._changed = True
        router, tables = self.run(self._wanted())
        if not router.topology.limits:
            tree = router.families[0].tree
            assert tables == routing_oracle.tables(router.topology, tree, router.registrations.values())
        self.mirror.adopt(tables)

    async def _wanted(self):
        router = self.controller.state.router
        return router, {s: table.copy() for s, table in router.tables.items()}


@contextmanager
def world(
    topology, folder, *, real=None, addresses=IPV6, timeouts=STEADY, discovers=False, begin=BEGINNING, control=None
):
    """`real` is the network as it is, where it is not as the controller is told."""
    port = free_port()
    settings = OpenFlowSettings(addresses=addresses, timeouts=timeouts, discovers=discovers)
    made = World(topology, folder, port, settings, control or ControlSettings.within(addresses.bits))
    try:
        made.listen()
        with Lab.up(real or topology, controller=f"tcp:127.0.0.1:{port}") as lab:
            made.move_in(lab)
            made.start()
            made.submit(*begin)
            yield made
    finally:
        made.close()
