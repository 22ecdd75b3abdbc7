"""What the planner tells its process of the network: what is there of it, its room, and the trees of a schema."""

from contextlib import asynccontextmanager
from dataclasses import replace

from pleroma.control import Controller, CreateSchema
from pleroma.control.state.command import Rewire
from pleroma.control.state.tree_choice import DealtTree, SchemaTrees, check_trees
from pleroma.routing import build
from pleroma.routing.tree import cable_of
from pleroma.service.collecting.influence_limit import InfluenceLimit
from pleroma.service.collecting.sample_intake import SampleIntake
from pleroma.service.collecting.sampling_rates import SamplingRates
from pleroma.service.planes.embedded_plane import EmbeddedPlane
from pleroma.service.replanning.planner import Planner
from pleroma.service.replanning.replanning_settings import ReplanningSettings
from pleroma.switches.live.live_network import LiveNetwork
from support.strategies import STOCK
from support.waiting import run

RING = build("ring:4")


class Asked:
    """A planning process that only remembers what it was asked."""

    incarnation = 1

    def __init__(self):
        self.news = []

    async def start(self):
        pass

    async def ask(self, ask):
        self.news.append(ask.news)

    async def close(self):
        pass


@asynccontextmanager
async def planning(folder, network=RING):
    async with (
        LiveNetwork(network, loopback=True) as live,
        await Controller.open(folder / "service", network, live) as controller,
    ):
        await controller.submit(CreateSchema(STOCK))
        samples = SampleIntake(
            None, SamplingRates(), lambda _: None, InfluenceLimit(controller.state.registrations, EmbeddedPlane(live))
        )
        planner = Planner(controller, EmbeddedPlane(live), samples, ReplanningSettings())
        planner._process = asked = Asked()
        entry = controller.state.schemas["stock"]

        async def told():
            await planner._ask(entry, None)
            return asked.news[-1]

        yield controller, planner, entry, told


def test_what_is_there_of_the_network_and_its_trees_are_told_when_they_change(tmp_path):
    async def main():
        async with planning(tmp_path) as (controller, _, entry, told):
            first = await told()
            assert first.topology == RING
            (tree,) = first.trees.dealt
            assert first.trees == SchemaTrees("single", (DealtTree.of(controller.state.router.families[0]),))
            again = await told()
            assert (again.topology, again.trees) == (None, None)
            (a, a_port), _ = tree.cables[0]
            await controller.rewire(Rewire(down=((a, a_port),)))
            cut = await told()
            assert cut.topology.hosts == RING.hosts
            assert {cable_of(link) for link in cut.topology.links} == {
                cable_of(link) for link in RING.links if cable_of(link) != tree.cables[0]
            }
            assert tree.cables[0] not in cut.trees.dealt[0].cables
            await controller.choose_trees("balanced")
            balanced = (await told()).trees
            assert balanced.choice == "balanced"
            check_trees(balanced.dealt)
            assert entry.trees == "balanced"

    run(main)


def test_there_is_room_beside_if_every_limited_table_has_it(tmp_path):
    async def main():
        limited = replace(RING, limits={"R1": 50, "R2": 60})
        async with planning(tmp_path, limited) as (_, planner, entry, _):
            assert planner.has_room_beside(entry, {"R1": 50, "R2": 60, "R3": 9999})
            assert planner.has_room_beside(entry, {})
            assert not planner.has_room_beside(entry, {"R1": 51})
            assert not planner.has_room_beside(entry, {"R2": 61})

    run(main)
