"""Requests to flow operations, batches of events through the embedded network, and how evenly trees load it."""

from __future__ import annotations

import importlib.util
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pleroma.index import EVERYTHING, Dz, DzSet, GridIndex
from pleroma.routing import Advertise, HostId, Port, Request, Router, Subscribe, SwitchId, Unsubscribe, build
from pleroma.switches import EmbeddedNetwork, Packet
from pleroma.switches.simulated.simulation import simulate
from pleroma.workloads import EXPRESSIVE, generate

STEPS = 15
BITS = 23
PUBLISHERS = 8
MIXED_REQUESTS = 4_000
SCANNED_REQUESTS = 40
"""Algorithm 1 is timed on so many; it is slow, and its pace does not change within a run."""
LIVE_EVENTS = 2_000


def run(advance: Callable[[float], None], full: bool = False) -> dict[str, Any]:
    """With `full`, up to a million standing subscriptions on 1,024 switches instead of 10,000."""
    growth = {}
    for standing in (1_000, 10_000, 100_000):
        growth[str(standing)] = round(_requests_per_s(standing))
        advance(1)
    scan = _against_scan()
    advance(1)
    batch = _batch()
    advance(5)
    balance = _module("_balance").balance(advance)
    standing = _module("_standing").standing(advance, full)
    return {
        "requests_per_s": growth["10000"],
        **scan,
        "growth": growth,
        "growth_ratio": round(growth["1000"] / growth["100000"], 2),
        **batch,
        **balance,
        **standing,
    }


def _dz(draw: random.Random, shortest: int = 10) -> DzSet:
    length = draw.randint(shortest, BITS)
    return DzSet([Dz(1 << length | draw.getrandbits(length))])


def _network(draw: random.Random, standing: int) -> tuple[Router, list[str]]:
    """20 switches, 64 hosts, 8 of which publish everything; subscriptions of one dz each."""
    topology = build("random:20x64")
    router = Router(topology, max_length=BITS)
    hosts = [host.name for host in topology.hosts]
    for host in hosts[:: len(hosts) // PUBLISHERS]:
        router.apply(Advertise(f"a-{host}", host, EVERYTHING))
    live = [f"s{i}" for i in range(standing)]
    for name in live:
        router.apply(Subscribe(name, draw.choice(hosts), _dz(draw)))
    return router, live


def _mix(draw: random.Random, router: Router, live: list[str], count: int) -> list[Request]:
    """As many arrivals as departures, in turns."""
    hosts = [host.name for host in router.topology.hosts]
    requests: list[Request] = []
    for i in range(count // 2):
        requests.append(Subscribe(f"n{i}", draw.choice(hosts), _dz(draw)))
        place = draw.randrange(len(live))
        requests.append(Unsubscribe(live[place]))
        live[place] = f"n{i}"
    return requests


def _requests_per_s(standing: int) -> float:
    draw = random.Random(standing)
    router, live = _network(draw, standing)
    requests = _mix(draw, router, live, MIXED_REQUESTS)
    return len(requests) / _seconds(lambda: [router.apply(request) for request in requests])


def _against_scan() -> dict[str, Any]:
    """Enough subscriptions on both sides for 10,000 flows on the fullest switch, then the same requests to both."""
    draw = random.Random(7)
    router, live = _network(draw, 26_000)
    scanning = _scanning(router)
    requests = _mix(draw, router, live, SCANNED_REQUESTS)
    registered = dict(router.registrations)
    ours = _seconds(lambda: [router.apply(request) for request in requests])
    theirs = _seconds(lambda: _scan(scanning, requests, registered))
    _same_forwarding(router, scanning, draw)
    flows = [len(flows) for flows in scanning.flows.values()]
    return {"ratio_to_scan": round(theirs / ours, 1), "scanned_flows": {"largest": max(flows), "all": sum(flows)}}


def _scanning(router: Router) -> Any:
    """The scanning controller as its own requests would have left it.

    They would take hours, so its flows are put together here: one for every subscribed dz (it does not join siblings),
    with the ports of all subscribers whose dz cover it.
    """
    scanning = _module("_algorithm1").ScanningController(router.topology, router.families[0].tree)
    for registration in router.registrations.values():
        side = scanning.publishers if isinstance(registration, Advertise) else scanning.subscribers
        side.append((registration.host, registration.region))
    wanting: dict[Dz, set[HostId]] = defaultdict(set)
    for host, region in scanning.subscribers:
        for dz in region:
            wanting[dz].add(host)
    hops = {h: {hop for p, _ in scanning.publishers for hop in scanning.tree.path(p, h)} for h in router.topology.host}
    for dz in sorted(wanting, key=lambda dz: dz.length):
        above = [Dz(dz >> k) for k in range(dz.length + 1) if dz >> k in wanting]
        ports: dict[SwitchId, set[Port]] = defaultdict(set)
        for host in {host for cell in above for host in wanting[cell]}:
            for switch, port in hops[host]:
                ports[switch].add(port)
        for switch, out in ports.items():
            if out != scanning.lookup(switch, dz):
                scanning.flows[switch][dz] = out
    return scanning


def _module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"benchmarks.{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _scan(scanning: Any, requests: Iterable[Request], registered: dict[str, Any]) -> None:
    for request in requests:
        if isinstance(request, Subscribe):
            registered[request.id] = request
            scanning.subscribe(request.host, request.region)
        else:
            gone = registered[request.id]
            scanning.unsubscribe(gone.host, gone.region)


def _same_forwarding(router: Router, scanning: Any, draw: random.Random) -> None:
    cells = [dz for r in router.registrations.values() if isinstance(r, Subscribe) for dz in r.region]
    for dz in draw.sample(cells, 2_000):
        point = (dz << BITS - dz.length) | draw.getrandbits(BITS - dz.length)
        for switch, table in router.tables.items():
            flow = table.lookup(point)
            assert set(flow.ports if flow else ()) == scanning.lookup(switch, point), "the two controllers disagree"


def _batch() -> dict[str, Any]:
    """The size of Bhowmik et al. 2018, VI: 128 switches, 256 hosts, 10,000 subscriptions, 100,000 events."""
    topology = build("random:128x256")
    workload = generate(replace(EXPRESSIVE, subscriptions=10_000, events=100_000, width=0.2, placement="inside"))
    index = GridIndex.regular(workload.schema, BITS)
    result = simulate(topology, workload, index, publishers=32)
    assert result.missed == 0, f"{result.missed} wanted events did not arrive"
    codes = index.encode(workload.events.points())
    network = EmbeddedNetwork(topology)
    network.install(result.operations)
    for row in range(LIVE_EVENTS):
        network.publish(topology.hosts[row % len(topology.hosts)].name, Packet(codes.dz(row)))
    live = _seconds(network.run)
    events_per_s = len(codes) / result.seconds["forward"]
    return {
        "events_per_s": round(events_per_s),
        "whole_run_s": round(sum(result.seconds.values()), 2),
        "seconds": {phase: round(seconds, 2) for phase, seconds in result.seconds.items()},
        "ratio_to_live": round(events_per_s / (LIVE_EVENTS / live), 1),
        "deliveries": result.waste.deliveries,
        "waste": round(result.waste.rate, 4),
        "rules_total": sum(result.rules),
        "rules_max": max(result.rules),
    }


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
