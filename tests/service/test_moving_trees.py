"""Balanced trees on a running network: events move to other trees when hot content shifts, under real traffic."""

import asyncio
from contextlib import AsyncExitStack
from itertools import count, cycle
from random import Random

from pleroma.client import connect
from pleroma.content import Integer, Schema
from pleroma.replanning.decisions import WatchSettings
from pleroma.routing import build
from pleroma.service import Deployment, running
from pleroma.service.replanning.replanning_settings import ReplanningSettings
from support.waiting import LIMIT_SECONDS, run, until

NETWORK = build("fat-tree:4")
HOT = Schema("hot", (Integer("x", False, 0, 255), Integer("number", False, 0, 2**20)))
LOOKING = WatchSettings(  # no other index is good enough
    window=0.5, lateness=0, cool_down=0.5, period=600, least=100, threshold=1.0, floor=1.0
)
PUBLISHERS, RECEIVERS = ("h1", "h6", "h11", "h16"), ("h2", "h4", "h5", "h8", "h9", "h12", "h13", "h15")
AREAS = (range(64), range(192, 256))
"""Where the hot content is at first, and later."""
COUNTED_EVENTS = 400


class Traffic:
    """Publishers take turns to send, without a pause, events of the area that is hot now."""

    def __init__(self, publishers, network):
        self.publishers, self.network, self.sent, self.area = cycle(publishers), network, [], AREAS[0]

    async def flow(self):
        draw = Random(1)
        for number in count():
            x = draw.choice(self.area)
            next(self.publishers).publish({"x": x, "number": number})
            self.sent.append(x)
            await asyncio.sleep(0.002)

    async def busiest(self):
        """Packets on the busiest cable between switches, of so many events that are sent from now on."""
        before, begun = self.crossings(), len(self.sent)
        await until(lambda: len(self.sent) >= begun + COUNTED_EVENTS, LIMIT_SECONDS)
        events, after = len(self.sent) - begun, self.crossings()
        return max(after[cable] - before[cable] for cable in after) / events

    def crossings(self):
        """By cable between switches, the packets in both directions."""
        found = {}
        for line, counters in self.network.by_line().items():
            if line.source_port is not None and line.target_port is not None:
                cable = frozenset([(line.source, line.source_port), (line.target, line.target_port)])
                found[cable] = found.get(cable, 0) + counters.sent
        return found


async def subscribed(clients):
    """Every client asks for half of either area; with what each subscription asks for."""
    made = []
    for number, client in enumerate(clients):
        for area in AREAS:
            asked = area[4 * number : 4 * number + 32]
            text = f"x >= {asked[0]} and x <= {asked[-1]}"
            made.append((asked, await client.subscribe("hot", text, queue=50_000)))
    return made


def test_events_move_to_other_trees_when_hot_content_shifts_and_none_is_lost_or_doubled(tmp_path):
    async def main():
        deployment = Deployment(port=0, replanning=ReplanningSettings(LOOKING), trees="balanced")
        async with running(tmp_path, NETWORK, deployment) as made, AsyncExitStack() as stack:
            service = made.service

            async def client(host):
                return await stack.enter_async_context(connect(made.url, made.token, host))

            senders = [await client(host) for host in PUBLISHERS]
            await senders[0].create_schema(HOT)
            members = await subscribed([await client(host) for host in RECEIVERS])
            publishers = [await stack.enter_async_context(await each.advertise("hot")) for each in senders]
            traffic = Traffic(publishers, service.plane.network)
            flowing = asyncio.create_task(traffic.flow())

            async def moved(times):
                await until(lambda: service.replanning.moves["hot"] >= times, LIMIT_SECONDS)

            await moved(1)
            service.claims.claim("hot", 600)  # the controller leaves everything as it is
            traffic.area = AREAS[1]
            before = await traffic.busiest()
            moves = service.replanning.moves["hot"]
            service.claims.claim("hot", 0)
            await moved(moves + 1)
            await until(lambda: service.replanning.balances["hot"].outcome == "not_better", LIMIT_SECONDS)
            after = await traffic.busiest()
            flowing.cancel()
            assert after < 0.85 * before, (before, after)
            assert service.state.schemas["hot"].epoch == 1 + service.replanning.moves["hot"]
            assert not service.replanning.changes
            assert not service.replanning.failures
            for asked, each in members:
                wanted = sum(x in asked for x in traffic.sent)
                await until(lambda each=each, wanted=wanted: each.info.delivered >= wanted, LIMIT_SECONDS)
                assert (each.info.delivered, each.info.duplicates) == (wanted, 0)

    run(main, 4 * LIMIT_SECONDS)
