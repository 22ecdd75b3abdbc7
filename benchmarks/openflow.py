"""Rules to real switches, and events through them: speed, latency, recovery. Takes root and Open vSwitch."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from ipaddress import IPv6Address, IPv6Network
from pathlib import Path
from typing import Any

import numpy as np
from os_ken.ofproto.ofproto_protocol import ProtocolDesc

from pleroma.client.session.schema_channel import SchemaChannel
from pleroma.content import Filter, Integer, Schema
from pleroma.content.filter_json import to_json
from pleroma.control import Controller, CreatePrincipal, CreateSchema, Register, Withdraw
from pleroma.index import Dz, GridIndex, IndexPlan
from pleroma.index.address import IPV6
from pleroma.lab import Lab
from pleroma.lab.needs import check
from pleroma.lab.rig import UNDISTURBED, HostSockets, Rig, quietly, rig
from pleroma.routing import AdmitOp, Change, Flow, FlowOp, Output, SwitchOp, Topology, build
from pleroma.routing.shapes import line
from pleroma.service.planes.openflow_plane import OpenFlowSettings, over_openflow
from pleroma.switches.openflow.connection import Connection
from pleroma.switches.openflow.flow_mod import flow_mod
from pleroma.switches.openflow.listener import SwitchListener
from pleroma.switches.openflow.rule import IP_PROTO_UDP, Match, Rule, RuleChange, Send
from pleroma.wire.ports import EVENTS_PORT

STEPS = 8
HOPS = (1, 3, 5)
RULES = (10, 1_000, 10_000)
CELL_BITS = 24
"""Bits of a cell that has a rule."""
TURNS, FLIGHTS, WARM = 6, 160, 20
"""Events: so many turns, in each so many for every distance, after some that are not counted."""
FRESH_EVENTS = 30
REST_SECONDS = 1.0
"""Seconds after a change of many rules in which the switch sorts itself out."""
ENCODED_RULES = 20_000
OSKEN = ProtocolDesc(5)
RULES_PER_BUNDLE = 100
REQUESTS = 60
CUTS = 10
EVERYTHING = Dz(1)
SCHEMA = Schema("readings", (Integer("value", False, 0, 65_535),))


def run(advance: Callable[[float], None]) -> dict[str, Any]:
    check()
    return asyncio.run(_run(advance))


async def _run(advance: Callable[[float], None]) -> dict[str, Any]:
    figures: dict[str, Any] = {"load_average": round(os.getloadavg()[0], 1)}
    encoded, by_osken = _encoded()
    figures["flow_mods_per_s"] = {"encoded": round(encoded), "acknowledged": round(await _acknowledged())}
    figures["encoding_ratio_to_osken"] = round(encoded / by_osken, 1)
    advance(1)
    figures["resync_s"] = await _resync()
    advance(1)
    figures |= await _latency()
    advance(2)
    figures["events_per_s"] = await _throughput()
    advance(2)
    figures |= await _controller()
    advance(2)
    figures["tags"] = _tags()
    return figures


def _tags() -> dict[str, float]:
    """What tags add to the work of the programs at both ends; switches do not look at them."""
    channel = SchemaChannel(1, Dz(0b10), IndexPlan(1, GridIndex.regular(SCHEMA, 16)))
    chance = random.Random(4)
    events = [SCHEMA.event(value=chance.randrange(65_536)) for _ in range(5_000)]
    spec = importlib.util.spec_from_file_location("_tags", Path(__file__).with_name("_tags.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    cost: dict[str, float] = module.cost(channel, events, [Filter.everything(SCHEMA)])
    return cost


# -- rules -----------------------------------------------------------------------------------------------------------


def _rules(count: int) -> list[Rule]:
    """As the last switch before a host has them."""
    cells = random.Random(1).sample(range(1 << CELL_BITS), count)
    return [
        Rule(
            1,
            100 + CELL_BITS,
            Match(None, None, IP_PROTO_UDP, IPv6Network((0xFF0E << 112 | cell << 112 - CELL_BITS, 16 + CELL_BITS))),
            (Send(2, IPv6Address("fd00::1"), "02:00:00:00:00:01"),),
        )
        for cell in cells
    ]


def _encoded() -> tuple[float, float]:
    """Rules to bytes in a second, by our encoder and by os-ken's classes, on one core; the best of three each."""
    rules = _rules(ENCODED_RULES)
    ours = max(_rate(rules, lambda number, rule: flow_mod(5, number, Change.ADD, rule)) for _ in range(3))
    return ours, max(_rate(rules[: ENCODED_RULES // 10], _by_osken) for _ in range(3))


def _rate(rules: Sequence[Rule], encode: Callable[[int, Rule], bytes]) -> float:
    begun = time.perf_counter()
    for number, rule in enumerate(rules):
        encode(number, rule)
    return len(rules) / (time.perf_counter() - begun)


def _by_osken(number: int, rule: Rule) -> bytes:
    parser, to = OSKEN.ofproto_parser, rule.match.destination
    assert to is not None
    match = parser.OFPMatch(eth_type=0x86DD, ip_proto=IP_PROTO_UDP, ipv6_dst=(str(to.network_address), str(to.netmask)))
    actions = [
        action
        for send in rule.sends
        for action in (
            parser.OFPActionSetField(ipv6_dst=str(send.destination)),
            parser.OFPActionSetField(eth_dst=send.ethernet),
            parser.OFPActionOutput(send.port),
        )
    ]
    apply = [parser.OFPInstructionActions(4, actions)]
    made = parser.OFPFlowMod(OSKEN, table_id=rule.table, priority=rule.priority, match=match, instructions=apply)
    made.set_xid(number)
    made.serialize()
    return bytes(made.buf)


async def _acknowledged() -> float:
    """One bundle after the other, each confirmed before the next is sent."""
    greeted: asyncio.Queue[Connection] = asyncio.Queue()
    async with SwitchListener(("127.0.0.1", 0), None, greeted.put, idle=60, dead=60) as listener:
        target = f"tcp:127.0.0.1:{listener.address[1]}"
        lab = await asyncio.to_thread(Lab.up, build("single:2"), controller=target)
        try:
            connection = await greeted.get()
            changes = [RuleChange(Change.ADD, rule) for rule in _rules(RULES[-1])]
            begun = time.perf_counter()
            for start in range(0, len(changes), RULES_PER_BUNDLE):
                await connection.commit(changes[start : start + RULES_PER_BUNDLE], 60)
            return len(changes) / (time.perf_counter() - begun)
        finally:
            await asyncio.to_thread(lab.close)


async def _resync() -> dict[str, float]:
    """From the moment that a switch with 10,000 rules is there again until it has been read and is right."""
    topology = build("single:2")
    cells = random.Random(2).sample(range(1 << CELL_BITS), RULES[-1])
    out = (Output(topology.hosts[1].port, topology.hosts[1].address),)
    ops = [FlowOp(topology.switches[0], Change.ADD, Flow(Dz(1 << CELL_BITS | cell), out)) for cell in cells]
    async with rig(topology, ops) as made:
        figures = {}
        target = f"tcp:127.0.0.1:{made.network.address[1]}"
        for name, break_it in {
            "kept_its_rules": [lambda: made.lab.set_controller(target)],
            "lost_its_rules": [made.lab.kill_switches, made.lab.start_switches],
        }.items():
            for each in break_it:
                await asyncio.to_thread(each)
            begun = await _until(made, "reading")
            figures[name] = round(await _until(made, "ready") - begun, 3)
        return figures


async def _until(made: Rig, state: str) -> float:
    async with asyncio.timeout(60):
        while next(iter(made.network.status().values())).state != state:
            await asyncio.sleep(0.0005)
    return time.perf_counter()


# -- events ----------------------------------------------------------------------------------------------------------


async def _latency() -> dict[str, Any]:
    """On the same switches with ever other numbers of rules, in turns."""
    topology = line(max(HOPS), hosts_per_switch=2)
    sender = topology.hosts[0]
    draw = random.Random(3)
    cells = [Dz(1 << CELL_BITS | cell) for cell in draw.sample(range(1 << CELL_BITS), RULES[-1])]
    times: dict[tuple[int, int], list[float]] = {(rules, hops): [] for hops in HOPS for rules in RULES}
    first: dict[tuple[int, int], list[float]] = {(rules, hops): [] for hops in HOPS for rules in RULES[1:]}
    installed = RULES[0]
    ops = [AdmitOp(sender.switch, Change.ADD, sender.port, EVERYTHING), *_paths(topology, cells, 0, installed)]
    async with rig(topology, ops) as made:
        with HostSockets(made.lab) as sockets:
            for turn in range(TURNS):
                for rules in draw.sample(RULES, len(RULES)):
                    await made.network.install(_paths(topology, cells, installed, rules))
                    installed = rules
                    gc.collect()
                    await asyncio.sleep(REST_SECONDS)
                    fresh = cells[RULES[0] + turn * FRESH_EVENTS :][:FRESH_EVENTS] if rules > RULES[0] else []
                    await asyncio.to_thread(_fly, sockets, rules, cells, fresh, times, first)
    return {
        "latency_us": {f"{h}_hops": {f"{r}_rules": _percentiles(times[r, h], 1e6) for r in RULES} for h in HOPS},
        "latency_ratio": {
            f"{h}_hops": round(_median(times[RULES[-1], h]) / _median(times[RULES[0], h]), 2) for h in HOPS
        },
        "first_event_of_a_cell_us": {
            f"{h}_hops": {f"{r}_rules": round(1e6 * _median(first[r, h])) for r in RULES[1:]} for h in HOPS
        },
        "lost": sum(int(np.isnan(each).sum()) for each in times.values()),
    }


def _paths(topology: Topology, cells: Sequence[Dz], before: int, after: int) -> list[SwitchOp]:
    """So many rules on every switch instead of so many; the cells belong in turn to hosts 1, 3 and 5 switches away."""
    ops: list[SwitchOp] = []
    change = Change.ADD if after > before else Change.DELETE
    for number in range(min(before, after), max(before, after)):
        hops = HOPS[number % len(HOPS)]
        for place, switch in enumerate(topology.switches, 1):
            if place < hops:
                onward = topology.switches[place]
                output = Output(next(port for port, there, _, _ in topology.neighbours[switch] if there == onward))
            else:  # behind its receiver no event of the cell comes by, but the rule is there
                here = topology.hosts_of[switch][1]
                output = Output(here.port, here.address)
            ops.append(FlowOp(switch, change, Flow(cells[number], (output,))))
    return ops


def _fly(
    sockets: HostSockets,
    rules: int,
    cells: Sequence[Dz],
    fresh: Sequence[Dz],
    times: dict[tuple[int, int], list[float]],
    first: dict[tuple[int, int], list[float]],
) -> None:
    """Events in the first few cells, which all sizes have; then one in each fresh cell."""
    for number in range(-WARM, FLIGHTS):
        for place, hops in enumerate(HOPS):
            found = sockets.flight("h1", cells[place + number % 3 * len(HOPS)], [f"h{2 * hops}"])
            if number >= 0:
                times[rules, hops] += found.values() if found else [float("nan")]
    for dz in fresh:
        hops = HOPS[cells.index(dz) % len(HOPS)]
        first[rules, hops] += sockets.flight("h1", dz, [f"h{2 * hops}"]).values()


def _median(values: Sequence[float]) -> float:
    return float(np.nanmedian(values))


def _percentiles(values: Sequence[float], scale: float) -> dict[str, float]:
    half, most = np.nanpercentile(values, (50, 99))
    return {"p50": round(scale * half), "p99": round(scale * most)}


async def _throughput() -> dict[str, Any]:
    """The highest rate at which nothing is lost over three switches, sender and receiver being processes."""
    topology = build("line:3")
    h3 = topology.find_host("h3")
    ops: list[SwitchOp] = [AdmitOp(topology.hosts[0].switch, Change.ADD, topology.hosts[0].port, EVERYTHING)]
    for switch, there in zip(topology.switches, (*topology.switches[1:], None), strict=True):
        onward = [Output(port) for port, other, _, _ in topology.neighbours[switch] if other == there]
        ops.append(FlowOp(switch, Change.ADD, Flow(EVERYTHING, tuple(onward) or (Output(h3.port, h3.address),))))
    async with rig(topology, ops) as made:
        best, tried, rate = 0, {}, 4_000.0
        while rate < 500_000:
            sent, seconds, received = await asyncio.to_thread(_stream, made.lab, h3.address, rate)
            reached = sent / seconds
            tried[str(round(reached))] = sent - received
            if received < sent:
                break
            best = max(best, round(reached))
            if reached < 0.8 * rate:
                break
            rate *= 1.5
        return {"lossless": best, "lost_at_rate": tried}


def _stream(lab: Lab, address: str, rate: float) -> tuple[int, float, int]:
    program = [sys.executable, "-I", "-S", str(Path(__file__).with_name("_stream.py"))]
    count = int(rate)
    counting = lab.popen("h3", [*program, "count", address, str(EVENTS_PORT)], stdout=subprocess.PIPE, text=True)
    assert counting.stdout is not None
    with counting:
        assert counting.stdout.readline() == "ready\n"
        words = ["send", str(IPV6.address(Dz(0b10))), str(EVENTS_PORT), str(rate), str(count)]
        sent = lab.run("h1", [*program, *words], stdout=subprocess.PIPE, text=True, check=True)
        return count, float(sent.stdout), int(counting.stdout.readline())


# -- with a controller -----------------------------------------------------------------------------------------------


async def _controller() -> dict[str, Any]:
    """Requests and cut links on the ten switches of the testbed, seen by a stream of events."""
    topology = build("testbed")
    with tempfile.TemporaryDirectory() as folder, quietly():
        port = _free_port()
        settings = OpenFlowSettings(listen=("127.0.0.1", port), timeouts=UNDISTURBED)
        starting = asyncio.to_thread(Lab.up, topology, controller=f"tcp:127.0.0.1:{port}")
        lab_up = asyncio.ensure_future(starting)
        try:
            async with over_openflow(Path(folder), topology, None, settings) as (controller, _):
                lab = await lab_up
                with HostSockets(lab) as sockets:
                    return await _with_stream(controller, lab, sockets)
        finally:
            await asyncio.to_thread((await lab_up).close)


async def _with_stream(controller: Controller, lab: Lab, sockets: HostSockets) -> dict[str, Any]:
    await controller.submit(CreateSchema(SCHEMA))
    await controller.submit(CreatePrincipal("root", "admin", "0" * 64))
    everything = to_json(Filter.parse(SCHEMA, "true"))
    await controller.submit(Register("advertisement", "root", "h1", SCHEMA.name, everything))
    entry = controller.state.schemas[SCHEMA.name]
    dz = entry.prefix.then(next(iter(entry.index.dzs(SCHEMA.event(value=4_321)))))
    stream = Stream(sockets, dz)
    stream.start()
    try:
        answered, seen = [], []
        for number in range(REQUESTS):
            host = f"h{2 + number % 7}"
            wanted = to_json(Filter.parse(SCHEMA, f"value between {number} and {4_321 + 7 * number}"))
            begun = time.perf_counter()
            done = await controller.submit(Register("subscription", "root", host, SCHEMA.name, wanted))
            answered.append(time.perf_counter() - begun)
            seen.append(await stream.first(host, begun) - begun)
            await controller.submit(Withdraw(done.value["id"], "root"))
            await asyncio.sleep(0.02)
        await controller.submit(Register("subscription", "root", "h8", SCHEMA.name, everything))
        await stream.first("h8", time.perf_counter())
        gaps = [await _cut(controller, lab, stream) for _ in range(CUTS)]
    finally:
        stream.end()
    return {
        "subscription_ms": {"answered": _percentiles(answered, 1e3), "first_event": _percentiles(seen, 1e3)},
        "convergence_ms": {"p50": round(1e3 * _median(gaps), 1), "max": round(1e3 * max(gaps), 1)},
    }


async def _cut(controller: Controller, lab: Lab, stream: Stream) -> float:
    """Cut a link on the way from h1 to h8; the longest time without an event there."""
    topology = lab.topology
    hops = controller.state.router.families[0].tree.path("h1", "h8")
    used = {(hop[0], hop[1]) for hop in hops}
    link = next(each for each in topology.links if set(each.ends) & used)
    begun = time.perf_counter()
    await asyncio.to_thread(lab.cut, link)
    await asyncio.sleep(1)
    gap = stream.longest_gap("h8", begun - 0.05)
    await asyncio.to_thread(lab.mend, link)
    await asyncio.sleep(0.5)
    return gap


class Stream(threading.Thread):
    """An event every millisecond from h1, and when each host has got one."""

    def __init__(self, sockets: HostSockets, dz: Dz) -> None:
        super().__init__(daemon=True)
        self._sockets = sockets
        self._dz = dz
        self._over = threading.Event()
        self._came: dict[str, list[float]] = {}

    def run(self) -> None:
        while not self._over.is_set():
            self._sockets.send("h1", self._dz, b"event")
            due = time.perf_counter() + 0.001
            while (left := due - time.perf_counter()) > 0:
                for host, _, when in self._sockets.arrivals(left):
                    self._came.setdefault(host, []).append(when)

    def end(self) -> None:
        self._over.set()
        self.join()

    async def first(self, host: str, after: float) -> float:
        """When the first event after that came to a host."""
        async with asyncio.timeout(30):
            while True:
                came = self._came.get(host, [])
                if came and came[-1] > after:
                    return next(when for when in came if when > after)
                await asyncio.sleep(0.001)

    def longest_gap(self, host: str, after: float) -> float:
        came = [when for when in self._came[host] if when > after]
        return max(np.diff(came), default=float("nan"))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
