"""Events get another tree only when no switch has rules of the tree that they had."""

import asyncio

import pytest

from pleroma.control import Controller, CreateSchema, Withdraw
from pleroma.control.state.command import ChooseTrees, Rewire
from pleroma.errors import NotInstalled
from pleroma.index import Dz
from pleroma.routing import AdmitOp, FlowTable, build
from support.control_cases import ANN, SMALL, TRAFFIC, WEATHER, advertise, subscribe
from support.routing_oracle import walk

RING = build("ring:5")
EVENT = Dz.parse("0" * 20)


class Ring:
    """Switches that take everything at once, except those that are late: these go by the rules they have."""

    def __init__(self):
        self.tables = {switch: FlowTable() for switch in RING.switches}
        self.late = {}

    async def install(self, ops):
        for switch in {op.switch for op in ops} & self.late.keys():
            await self.late[switch].wait()
        for op in ops:
            if not isinstance(op, AdmitOp):
                self.tables[op.switch].apply(op)

    def keep_late(self, switch):
        self.late[switch] = asyncio.Event()


async def after_the_only_publisher_left(folder, trees, *commands, late="R3"):
    """h2 has sent to h4 by a switch that is late with the removal of its rule; then these commands came."""
    ring = Ring()
    controller = await Controller.open(folder, RING, ring, SMALL)
    for command in (CreateSchema(WEATHER), CreateSchema(TRAFFIC), ANN, ChooseTrees(trees)):
        await controller.submit(command)
    published = await controller.submit(advertise("ann", "true", "h2"))
    wanted = await controller.submit(subscribe("ann", "true", "h4"))
    ring.keep_late(late)
    leaving = [published.value["id"], *([wanted.value["id"]] if commands else [])]
    with pytest.raises(NotInstalled):
        await asyncio.gather(*(controller.submit(Withdraw(each, "ann"), patience=0.01) for each in leaving))
    for command in commands:
        if isinstance(command, Rewire):
            await controller.rewire(command)
        else:
            await controller.submit(command)
    return ring, controller


async def reached(ring, controller):
    """Whom an event of h1 comes to while h3 subscribes, and afterwards."""
    advertised = asyncio.create_task(controller.submit(advertise("ann", "true", "h1")))
    position = controller.position
    asked = [asyncio.create_task(controller.submit(subscribe("ann", "true", host))) for host in ("h3", "h4")]
    while controller.position < position + len(asked):
        await asyncio.sleep(0.001)
    for _ in range(20):
        await asyncio.sleep(0)
    meanwhile = [host for host, _ in walk(RING, ring.tables, "h1", EVENT)]
    ring.late.pop("R3").set()
    await asyncio.gather(advertised, *asked)
    return meanwhile, sorted(host for host, _ in walk(RING, ring.tables, "h1", EVENT))


NETWORK_CHANGES = (Rewire(down=(("R3", 3), ("R4", 2))), Rewire())
"""A cable is cut and comes back while nothing is registered."""


@pytest.mark.parametrize(
    ("trees", "commands"),
    [("forest", ()), ("forest", NETWORK_CHANGES)],
)
def test_who_publishes_next_waits_until_the_rules_of_the_old_tree_are_gone(tmp_path, trees, commands):
    async def scenario():
        ring, controller = await after_the_only_publisher_left(tmp_path, trees, *commands)
        meanwhile, afterwards = await reached(ring, controller)
        assert len(meanwhile) == len(set(meanwhile)), "a host gets an event twice"
        assert afterwards == ["h3", "h4"]
        await controller.close()

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_who_cannot_wait_is_told_and_nothing_is_written(tmp_path):
    async def scenario():
        ring, controller = await after_the_only_publisher_left(tmp_path, "forest")
        before = controller.position
        with pytest.raises(NotInstalled, match="not taken: R3 has not confirmed"):
            await controller.submit(advertise("ann", "true", "h1"), patience=0.01)
        assert controller.position == before
        await controller.submit(advertise("ann", "true", "h1", TRAFFIC))  # which R3 has no rules of
        await controller.submit(subscribe("ann", "true", "h1"))
        ring.late.pop("R3").set()
        await controller.submit(advertise("ann", "true", "h1"))
        await controller.close()

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_on_one_tree_nobody_waits_for_rules_that_go(tmp_path):
    async def scenario():
        ring, controller = await after_the_only_publisher_left(tmp_path, "single", late="R1")
        await controller.submit(advertise("ann", "true", "h5"), patience=0.5)
        ring.late.pop("R1").set()
        await controller.close()

    asyncio.run(asyncio.wait_for(scenario(), 20))
