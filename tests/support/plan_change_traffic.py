"""A network in simulated time with publishers that never stop, on which plans change; every event is accounted for.

Switches carry out what they are told after delays of their own, publishers hear of a new plan at different times, and
the controller may die at any moment: the switches keep what they have, and what it had sent is still carried out.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from pleroma.content import Filter, Integer, Schema
from pleroma.content.filter_json import to_json
from pleroma.control import (
    AdoptPlan,
    ChangePlan,
    Controller,
    ControlSettings,
    CreateSchema,
    PlanChangeTiming,
    Register,
    Withdraw,
)
from pleroma.control.state.command import RegistrationKind
from pleroma.control.state.tree_choice import DealtTree, TreeChoice
from pleroma.errors import PlanChanging, PlanTooOld
from pleroma.index import MAX_LENGTH, Dz, DzSet, GridIndex, Index, SelectiveIndex, TreeIndex
from pleroma.index.selective_index import Rectangle, SelectiveRegion
from pleroma.index.tree_walk import LEAF
from pleroma.routing import AdmitOp, Change, DetourOp, FlowOp, FlowTable, HostId, Port, SwitchId, Topology
from pleroma.routing.balancing import candidate_trees
from pleroma.routing.detour import SwitchOp
from pleroma.routing.flow import difference
from pleroma.routing.tree import cable_of
from pleroma.switches import EmbeddedNetwork, Packet
from pleroma.switches.simulated.installation import Installation
from support.control_cases import ANN

SPACE = Schema("space", tuple(Integer(name, False, 0, 255) for name in "xyz"))
SETTINGS = ControlSettings(schema_bits=2, max_members=16, default_bits=12, max_length=32)
STEP = 0.001
"""Simulated seconds between two looks of the loop at the network."""
PERIOD = 0.0008
"""Between two events of a publisher."""
SLOWEST = 0.02
"""A switch takes up to so long over a step, while a packet crosses the network in about 0.0006."""


def grid(bits: int, *dimensions: str) -> GridIndex:
    return GridIndex.regular(SPACE, bits, dimensions)


def rectangles(low: float, high: float) -> SelectiveIndex:
    inner = SelectiveRegion(Dz.parse("0"), Rectangle(((low, high),) * 3), grid(6, "x", "y", "z"))
    return SelectiveIndex(SPACE, (inner, SelectiveRegion(Dz.parse("1"), None, grid(4, "z"))))


PLANS: list[Index] = [
    grid(8, "x", "y"),
    grid(6, "z"),
    GridIndex(SPACE, (0, 1, 0, 1), {0: (10.0, 30.0, 200.0), 1: (5.0, 100.0, 101.0)}),
    rectangles(0.0, 100.0),
    grid(12, "z", "y", "x"),
    rectangles(60.0, 255.0),
    GridIndex(SPACE, (2, 2, 2), {2: (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)}),
]


def tree(randomness: Random, bits: int, depth: int) -> TreeIndex:
    """Cut at random, so deep everywhere."""
    dims: list[int] = []
    cuts: list[float] = []
    todo = [0]
    while todo:
        at = todo.pop()
        if at == depth:
            dims.append(LEAF)
            continue
        dims.append(randomness.randrange(3))
        cuts.append(float(randomness.randrange(1, 255)))
        todo += [at + 1, at + 1]
    return TreeIndex(SPACE, bits, tuple(dims), tuple(cuts))


def with_another_part(randomness: Random, index: TreeIndex) -> TreeIndex:
    """The tree, grown anew below one or two of its nodes."""
    parts = randomness.choice((1, 1, 2))
    for _ in range(parts):  # never two halves: that is the whole tree
        at = Dz(randomness.choice([code for code in index.layout.codes if parts <= code.bit_length() - 1 <= 4]))
        index = index.regrown(at, tree(randomness, index.bits - at.length, randomness.choice((1, 3))))
    return index


class Publisher:
    """Sends by the plan it has, and adopts a new one some time after it is told."""

    def __init__(self, host: HostId, lease: str, filter: Filter) -> None:
        self.host, self.lease, self.filter = host, lease, filter
        self.plan: tuple[int, Dz, Index] | None = None  # epoch, prefix, index
        self.due: float | None = None  # when it adopts the next
        self.sequence = 0


class World:
    """`randomness` decides delays, events and times; the same one gives the same world."""

    def __init__(self, topology: Topology, randomness: Random, trees: TreeChoice = "single") -> None:
        self.random = randomness
        self.topology = topology
        self.trees = trees
        self.network = EmbeddedNetwork(topology.with_limit(None))  # some take operations one by one, in any table
        self.admitted: set[tuple[SwitchId, Port, Dz]] = set()
        self.busy = 0
        self.silent = False
        self.publishers: list[Publisher] = []
        self.interests: list[tuple[HostId, Filter]] = []  # host and filter of those that stay
        self._controller: Controller | None = None
        self.sent: dict[tuple[str, int], set[HostId]] = {}
        self.refused = 0
        self.changes = self.deaths = 0
        self.fullest: Counter[SwitchId] = Counter()

    @property
    def is_controlled(self) -> bool:
        return self._controller is not None

    @property
    def controller(self) -> Controller:
        assert self._controller is not None, "it is dead"
        return self._controller

    # -- the network, as a controller sees it ------------------------------------------------------------------

    async def install(self, ops: Sequence[SwitchOp]) -> None:
        """Each switch takes its share after its own delay, all at once or one by one."""
        done = asyncio.Event()
        rules = [op for op in ops if not isinstance(op, AdmitOp)]
        slowness = {switch: self.random.choice((0.0, 0.001, SLOWEST)) for switch in self.topology.switches}
        delays = {switch: self.random.uniform(0, slowest) for switch, slowest in slowness.items()}
        last = max(delays.values())
        for op in ops:
            if isinstance(op, AdmitOp):
                self.network.clock.at(self.network.now + delays[op.switch], partial(self.admit, op))
        shares = Counter(op.switch for op in rules)
        self.busy += 1

        def finish(installation: Installation) -> None:
            assert not installation.refused, installation.refused
            self.network.clock.at(self.network.now + last, over)

        def over() -> None:
            self.busy -= 1
            done.set()

        self.network.install(
            rules,
            atomic=self.random.random() < 0.5,
            delay=lambda op: self.random.uniform(0, slowness[op.switch]) / shares[op.switch],
            then=finish,
        )
        await done.wait()

    def admit(self, op: AdmitOp) -> None:
        place = (op.switch, op.port, op.dz)
        if op.change is Change.ADD:
            self.admitted.add(place)
        else:
            self.admitted.discard(place)

    async def reconcile(self, ops: Sequence[SwitchOp]) -> None:
        """As after a restart: only what the switches lack, once they have done what they were asked before."""
        while self.busy:
            await asyncio.sleep(0)
        tables = {s: FlowTable() for s in self.topology.switches}
        detours = {s: FlowTable() for s in self.topology.switches}
        wanted = set()
        for op in ops:
            if isinstance(op, AdmitOp):
                wanted.add((op.switch, op.port, op.dz))
            else:
                (tables if isinstance(op, FlowOp) else detours)[op.switch].put(op.flow)
        lacking: list[SwitchOp] = []
        for switch, table in self.network.tables.items():
            now = FlowTable(table.detours)
            lacking += [DetourOp(*op) for op in difference(switch, now, detours[switch])]
            lacking += difference(switch, table.flows(), tables[switch])
        lacking += [AdmitOp(s, Change.ADD, port, dz) for s, port, dz in wanted - self.admitted]
        lacking += [AdmitOp(s, Change.DELETE, port, dz) for s, port, dz in self.admitted - wanted]
        await self.install(lacking)

    # -- people ------------------------------------------------------------------------------------------------

    async def populate(self, folder: Path, publishers: int = 5, interests: int = 14) -> None:
        self.folder = folder
        await self.start()
        await self.controller.choose_trees(self.trees)
        for command in (CreateSchema(SPACE), ANN, AdoptPlan("space", PLANS[-1])):
            await self.controller.submit(command)
        hosts = [host.name for host in self.topology.hosts]
        for number in range(publishers):
            wide = Filter.parse(SPACE, self.random.choice(("true", "x < 200", "y > 30 or z < 100")))
            publisher = Publisher(self.random.choice(hosts), f"lease{number}", wide)
            await self.register("advertisement", publisher.host, wide, publisher.lease)
            self.publishers.append(publisher)
        for _ in range(interests):
            await self.register("subscription", *self.interest(hosts))
        entry = self.controller.state.schemas["space"]
        for publisher in self.publishers:
            publisher.plan = (entry.epoch, entry.prefix, entry.index)
            self.network.clock.at(self.network.now + self.random.uniform(0, PERIOD), partial(self.send, publisher))

    def interest(self, hosts: Sequence[HostId]) -> tuple[HostId, Filter]:
        name = self.random.choice("xyz")
        low = self.random.randrange(200)
        wanted = Filter.parse(SPACE, f"{name} between {low} and {low + self.random.randrange(60)}")
        host = self.random.choice(hosts)
        self.interests.append((host, wanted))
        return host, wanted

    async def register(self, kind: RegistrationKind, host: HostId, wanted: Filter, lease: str | None = None) -> str:
        done = await self.controller.submit(Register(kind, "ann", host, "space", to_json(wanted), lease))
        made: str = done.value["id"]
        return made

    def send(self, publisher: Publisher) -> None:
        """One event, and the next one soon."""
        if self.silent:
            return
        event = SPACE.event({name: self.random.randrange(256) for name in "xyz"})
        if publisher.filter.matches(event):
            publisher.sequence += 1
            assert publisher.plan is not None
            _, prefix, index = publisher.plan
            key = (publisher.lease, publisher.sequence)
            self.sent[key] = {h for h, f in self.interests if h != publisher.host and f.matches(event)}
            (dz,) = index.dzs(event)
            dz = prefix.then(dz)
            place = self.topology.host[publisher.host]
            if any((place.switch, place.port, cell) in self.admitted for cell in _upward(dz)):
                on_the_wire = Dz(1 << MAX_LENGTH | dz.start)  # filled up with zeros
                self.network.publish(publisher.host, Packet(on_the_wire, payload=key))
            else:
                self.refused += 1
        self.network.clock.at(self.network.now + PERIOD, lambda: self.send(publisher))

    def listen(self, publisher: Publisher) -> None:
        """It may have heard of a plan, and says now and then which one it uses."""
        if publisher.plan is None:
            return
        entry = self.controller.state.schemas["space"]
        if publisher.plan[0] != entry.epoch:
            if publisher.due is None:
                publisher.due = self.network.now + self.random.choice((0.0, 0.002, self.random.uniform(0, 0.03)))
            elif self.network.now >= publisher.due:
                publisher.plan, publisher.due = (entry.epoch, entry.prefix, entry.index), None
        try:
            self.controller.plan_changes.adopted("ann", publisher.lease, {"space": publisher.plan[0]})
        except PlanTooOld:  # plans that differ in the limit of dz alone follow each other without waiting for anybody
            change = self.controller.state.plans.change
            assert publisher.plan[2] in (entry.index, *([change.before] if change is not None else []))
            publisher.plan, publisher.due = (entry.epoch, entry.prefix, entry.index), None

    # -- time --------------------------------------------------------------------------------------------------

    async def pass_time(self) -> None:
        """For ever: what is due in the network, then what waits in the loop."""
        while True:
            self.network.run(self.network.now + STEP)
            for switch, table in self.network.tables.items():
                self.fullest[switch] = max(self.fullest[switch], len(table.detours))
            if self.is_controlled:
                for publisher in self.publishers:
                    self.listen(publisher)
            for _ in range(3):
                await asyncio.sleep(0)

    async def sleep(self, seconds: float) -> None:
        until = self.network.now + seconds
        while self.network.now < until:
            await asyncio.sleep(0)

    # -- the controller ----------------------------------------------------------------------------------------

    async def start(self) -> None:
        world, first = self, [True]

        class Southbound:
            async def install(self, ops: Sequence[SwitchOp]) -> None:
                await (world.reconcile if first else world.install)(ops)
                first.clear()

        timing = PlanChangeTiming(in_flight_seconds=0.005, unleased_seconds=0.0, sleep=self.sleep)
        self._controller = await Controller.open(self.folder, self.topology, Southbound(), SETTINGS, timing=timing)

    async def kill(self) -> None:
        """Nothing more is written or told; what was sent to the switches is on its way."""
        controller, self._controller = self.controller, None
        controller._closing = True
        await controller.plan_changes.close()
        await controller._logged.close(with_snapshot=False)
        await controller._installer.close()
        controller.feed.close()
        self.deaths += 1

    async def change(
        self, index: Index, method: str, members: int | None = None, trees: tuple[DealtTree, ...] | None = None
    ) -> None:
        """To the end."""
        with suppress(PlanChanging):  # one that was begun before the last death
            await self.controller.plan_changes.change(ChangePlan("space", index, method, members=members, trees=trees))
            self.changes += 1

    def any_trees(self) -> tuple[DealtTree, ...]:
        """The event space in up to eight cells, each on any tree of the network."""
        bits = self.random.randrange(4)
        candidates = candidate_trees(self.topology)
        drawn = [self.random.choice(candidates) for _ in range(1 << bits)]
        return tuple(
            DealtTree(DzSet([Dz(1 << bits | number)]), tuple(map(cable_of, each.links)))
            for number, each in enumerate(drawn)
        )

    # -- the account -------------------------------------------------------------------------------------------

    def account(self) -> tuple[list[tuple[Any, HostId]], list[tuple[Any, HostId]]]:
        """Lost and doubled deliveries."""
        got = Counter((each.packet.payload, each.host) for each in self.network.deliveries)
        lost = [(key, host) for key, hosts in self.sent.items() for host in hosts if not got[key, host]]
        twice = [each for each, count in got.items() if count > 1]
        return lost, twice

    @property
    def wasted(self) -> int:
        return sum(each.host not in self.sent[each.packet.payload] for each in self.network.deliveries)


def _upward(dz: Dz) -> Iterator[Dz]:
    while True:
        yield dz
        if dz == 1:
            return
        dz = Dz(dz >> 1)


async def churn(world: World, busy: Callable[[], bool]) -> None:
    """Others come and go meanwhile."""
    hosts = [host.name for host in world.topology.hosts]
    while busy():
        low = world.random.randrange(200)
        wanted = Filter.parse(SPACE, f"y between {low} and {low + 40}")
        made = await world.register("subscription", world.random.choice(hosts), wanted)
        await world.sleep(world.random.uniform(0, 0.02))
        await world.controller.submit(Withdraw(made, "ann"))
