"""Switches confirm in any order: who is answered can rely on it, and who relies on nothing that is late is answered."""

import asyncio
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from pleroma.control import Controller, CreateSchema, Withdraw
from pleroma.control.switch_batch import SwitchBatch
from pleroma.index import Dz
from pleroma.routing import AdmitOp, Change, Flow, FlowOp, FlowTable, Output, build
from support.control_cases import ANN, BEN, SMALL, TRAFFIC, WEATHER, advertise, subscribe
from support.routing_oracle import walk

NETWORKS = [build("line:4"), build("ring:4")]
STEPS = 14


class Switches:
    """A switch takes what it is told, and confirms it, when it is let."""

    def __init__(self, topology):
        self.tables = {switch: FlowTable() for switch in topology.switches}
        self.admitted = set()
        self.late = {switch: [] for switch in topology.switches}

    async def install(self, ops):
        for switch in {op.switch for op in ops}:
            ready = asyncio.get_running_loop().create_future()
            self.late[switch].append(ready)
            await ready
        for op in ops:
            if not isinstance(op, AdmitOp):
                self.tables[op.switch].apply(op)
            elif op.change == "add":
                self.admitted.add((op.switch, op.port, op.dz))
            else:
                self.admitted.discard((op.switch, op.port, op.dz))

    def let(self, switch):
        for ready in self.late[switch]:
            ready.set_result(None)
        self.late[switch] = []

    def reached(self, topology, host, dz):
        """The hosts that an event comes to by what is confirmed."""
        place = topology.host[host]
        if not any((place.switch, place.port, Dz(dz >> bits)) in self.admitted for bits in range(dz.bit_length())):
            return set()
        return {there for there, _ in walk(topology, self.tables, host, dz)}


async def settle(controller, position):
    while controller.position < position:
        await asyncio.sleep(0.001)
    for _ in range(12):
        await asyncio.sleep(0)


def on_the_way(router, one, other):
    common = one.region & other.region
    return {hop.switch for family in router.families if family.region & common
            for hop in family.tree.path(one.host, other.host)}  # fmt: skip


async def scenario(folder, rng):
    topology = rng.choice(NETWORKS)
    network, hosts = Switches(topology), [host.name for host in topology.hosts]
    controller = await Controller.open(folder, topology, network, SMALL)
    for command in (CreateSchema(WEATHER), CreateSchema(TRAFFIC), ANN, BEN):
        await controller.submit(command)
    asked, gone = {}, set()
    registrations, router = controller.state.registrations, controller.state.router
    for _ in range(STEPS):
        chance = rng.random()
        if chance < 0.6:
            low = rng.randrange(12)
            text = rng.choice(["true", f"temperature between {low} and {low + 3}", f"wind < {rng.randrange(1, 8)}"])
            command = rng.choice((advertise, subscribe))("ben", text, rng.choice(hosts))
            number = controller.position + 1
            asked[f"{command.kind[0]}{number}"] = asyncio.create_task(controller.submit(command)), number
        elif chance < 0.7 and asked:
            name = rng.choice(list(asked))
            if name not in gone:
                gone.add(name)
                number = controller.position + 1
                asked[f"-{number}"] = asyncio.create_task(controller.submit(Withdraw(name, "ben"))), number
                gone.add(f"-{number}")
        else:
            network.let(rng.choice(topology.switches))
        await settle(controller, max((number for _, number in asked.values()), default=0))
        late = {switch for switch, waiting in network.late.items() if waiting}
        assert set(controller.delays) == late
        standing = {name: registrations[name] for name in asked if name not in gone}
        answered = [each for name, each in standing.items() if asked[name][0].done()]
        for one in answered:
            for other in answered:
                if (one.kind, other.kind) == ("advertisement", "subscription") and one.host != other.host:
                    for dz in one.region & other.region:
                        event = Dz(dz << SMALL.max_length - dz.length)
                        assert other.host in network.reached(topology, one.host, event), (one, other)
        own = controller._installer.following_from
        for name, each in standing.items():
            others = [other for other in registrations.values() if other.kind != each.kind]
            relied_on = {switch for other in others for switch in on_the_way(router, each, other)}
            relied_on |= {topology.host[each.host].switch, *own(asked[name][1])}
            assert asked[name][0].done() or relied_on & late, "it waits for nothing"
    while controller.delays:
        for switch in topology.switches:
            network.let(switch)
        await asyncio.sleep(0)
    await asyncio.gather(*(task for task, _ in asked.values()))
    assert network.tables == router.tables
    await controller.close()


def some_changes(rng, table, admitted):
    """Operations that fit the rules of a switch, which they change."""
    made = []
    for _ in range(rng.randrange(1, 5)):
        dz = Dz(1 << 3 | rng.randrange(8))
        if rng.random() < 0.3:
            change = Change.DELETE if dz in admitted else Change.ADD
            admitted ^= {dz}
            made.append(AdmitOp("R1", change, 1, dz))
            continue
        change = Change.ADD if dz not in table else rng.choice((Change.MODIFY, Change.DELETE))
        made.append(FlowOp("R1", change, Flow(dz, (Output(rng.randrange(1, 9)),))))
        table.apply(made[-1])
    return made


async def gathered(rng):
    before, admitted_before = FlowTable(), set()
    some_changes(rng, before, admitted_before)
    table, admitted, cells = before.copy(), set(admitted_before), []
    batch = SwitchBatch()
    for position in range(1, rng.randrange(2, 12)):
        ops = some_changes(rng, table, admitted)
        cells.append((position, [each.dz if isinstance(each, AdmitOp) else each.flow.dz for each in ops]))
        batch.add(position, ops)
        if rng.random() < 0.2:
            some = Dz(1 << 2 | rng.randrange(4))
            assert not batch.overlaps([some], 0)
    for each in batch.ops:
        if isinstance(each, AdmitOp):
            assert (each.dz in admitted_before) == (each.change is Change.DELETE)
            admitted_before ^= {each.dz}
        else:
            before.apply(each)
    assert (before, admitted_before) == (table, admitted)
    for until in range(len(cells) + 2):
        for length in range(6):
            asked = Dz(1 << length | rng.randrange(1 << length))
            met = any(
                asked.covers(dz) or dz.covers(asked) for position, its in cells if position <= until for dz in its
            )
            assert batch.overlaps([asked], until) == met


@given(st.integers(0, 10**6))
def test_what_gathers_for_a_switch_comes_to_the_same_as_one_change_after_the_other(seed):
    asyncio.run(gathered(Random(seed)))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_an_answer_can_be_relied_on_and_waits_for_nothing_else(seed):
    with TemporaryDirectory() as folder:
        asyncio.run(asyncio.wait_for(scenario(Path(folder), Random(seed)), 60))
