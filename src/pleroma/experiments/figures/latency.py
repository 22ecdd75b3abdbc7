"""How long an event takes through real switches, by the number of subscriptions (Bhowmik et al. 2017, figure 8(a)).

All sizes are measured on the same switches and in turns, round after round, so that neither what else the machine does
nor how a switch happens to be laid out tells them apart. An event is sent when the one before has arrived everywhere,
and each of them twice: the first of its kind takes the slow way through a software switch, the second counts. So does
the median, where the article has the mean: all switches and hosts share one machine here, whose pauses are not theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from pleroma.experiments.report import FigureReport, Verdict
from pleroma.index import EVERYTHING, ROOT, Dz, GridIndex
from pleroma.lab.needs import check
from pleroma.routing import (
    AdmitOp,
    Advertise,
    Change,
    FlowTable,
    HostId,
    Router,
    Subscribe,
    SwitchId,
    Topology,
    build,
    difference,
)
from pleroma.switches import EmbeddedNetwork, Packet
from pleroma.workloads import Model, generate

if TYPE_CHECKING:
    from pleroma.lab.rig import HostSockets

Delays = Mapping[str, list[float]]
LATENCY_BITS = 23
MAX_SUBSCRIPTION_CELLS = 8
"""The most dz that a subscription has."""
MEASURING_ROUNDS = 4
REST_SECONDS = 0.5
"""How long a switch is left alone after a change of many rules."""


class LatencyScenario(NamedTuple):
    """The tables of the switches, and the events that somebody gets, with the hosts that get them."""

    tables: Mapping[SwitchId, FlowTable]
    events: Sequence[tuple[Dz, Sequence[HostId]]]


@dataclass(frozen=True, slots=True)
class LatencyFigure:
    """The first host publishes, the others have the subscriptions among them."""

    figure: str
    title: str
    topology: str
    models: Mapping[str, Model]
    sizes: tuple[int, ...]
    events: int
    claims: Mapping[str, Callable[[Delays], bool]]

    def run(self, quick: bool, advance: Callable[[float], None]) -> FigureReport:
        check()
        sizes = tuple(size // 10 for size in self.sizes) if quick else self.sizes
        events = self.events // 10 if quick else self.events
        lines, rules = asyncio.run(self._measure(sizes, events, advance))
        ratios = [line[sizes[-1]] / line[sizes[0]] for line in lines.values()]
        delays = {name: list(line.values()) for name, line in lines.items()}
        return FigureReport(
            self.figure,
            self.title,
            ("subscriptions", *(f"{n:,}" for n in sizes), "last to first"),
            [
                (name, *(f"{1e6 * line[n]:.0f} µs" for n in sizes), f"{ratio:.2f}")
                for (name, line), ratio in zip(lines.items(), ratios, strict=True)
            ]
            + [(f"rules, {name}", *(f"{rules[name, n]:,}" for n in sizes), "") for name in lines],
            lines,
            "subscriptions",
            [Verdict(claim, holds(delays)) for claim, holds in self.claims.items()],
            y="seconds from publisher to subscriber, median",
        )

    async def _measure(
        self, sizes: Sequence[int], events: int, advance: Callable[[float], None]
    ) -> tuple[dict[str, dict[int, float]], dict[tuple[str, int], int]]:
        from pleroma.lab.rig import HostSockets, rig  # brings all of OpenFlow, which the other figures can do without

        topology = build(self.topology)
        scenarios = {
            (name, size): scenario(topology, replace(model, subscriptions=size, events=events))
            for name, model in self.models.items()
            for size in sizes
        }
        publisher = topology.hosts[0]
        times: dict[tuple[str, int], list[float]] = {key: [] for key in scenarios}
        before: Mapping[SwitchId, FlowTable] = {switch: FlowTable() for switch in topology.switches}
        admitting = AdmitOp(publisher.switch, Change.ADD, publisher.port, ROOT)
        async with rig(topology, [admitting]) as made:
            with HostSockets(made.lab) as sockets:
                for number in range(MEASURING_ROUNDS):
                    for key, (tables, flights) in scenarios.items():
                        await made.network.install(
                            [op for switch in tables for op in difference(switch, before[switch], tables[switch])]
                        )
                        before = tables
                        await asyncio.sleep(REST_SECONDS)
                        part = flights[number::MEASURING_ROUNDS]
                        times[key] += await asyncio.to_thread(second_flights, sockets, publisher.name, part)
                        advance(1 / MEASURING_ROUNDS / len(scenarios))
        lines = {name: {size: median(times[name, size]) for size in sizes} for name in self.models}
        return lines, {key: max(map(len, each.tables.values())) for key, each in scenarios.items()}


def second_flights(
    sockets: HostSockets, publisher: HostId, events: Sequence[tuple[Dz, Sequence[HostId]]]
) -> list[float]:
    """The seconds that every delivery took, for the second flight of each event."""
    times: list[float] = []
    for dz, receivers in events:
        sockets.flight(publisher, dz, receivers)
        times += sockets.flight(publisher, dz, receivers).values()
    return times


def scenario(topology: Topology, model: Model) -> LatencyScenario:
    """Subscriptions on all hosts but the first, which publishes."""
    workload = generate(model)
    index = GridIndex.regular(workload.schema, LATENCY_BITS)
    publisher, *others = topology.hosts
    router = Router(topology, max_length=LATENCY_BITS)
    flows = router.load(
        [
            Advertise("publisher", publisher.name, EVERYTHING),
            *(
                Subscribe(str(n), others[n % len(others)].name, index.cover(each, max_members=MAX_SUBSCRIPTION_CELLS))
                for n, each in enumerate(workload.subscriptions)
            ),
        ]
    )
    simulated = EmbeddedNetwork(topology)
    simulated.install(flows)
    codes = index.encode(workload.events.points())
    events = []
    for row in range(len(codes)):
        simulated.publish(publisher.name, Packet(codes.dz(row)))
        receivers = [delivery.host for delivery in simulated.run()]
        if receivers:
            events.append((codes.dz(row), receivers))
    return LatencyScenario(simulated.flow_tables(), events)


def hardly_grow(margin: float) -> Callable[[Delays], bool]:
    """With the most subscriptions it takes less than `margin` times as long as with the fewest."""
    return lambda delays: all(line[-1] < margin * line[0] for line in delays.values())
