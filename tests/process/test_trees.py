"""Several trees on the live embedded network, with real clients: kills, restarts and moves lose nothing."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

import pleroma
from pleroma.routing import build
from pleroma.service import running
from pleroma.service.deployment import Deployment
from support.service.process import ServiceProcess
from support.strategies import STOCK
from support.waiting import run, until

FAT_TREE = "fat-tree:4"
PUBLISHERS = {"h1": (0, 250), "h6": (250, 500), "h11": (500, 1000)}
"""By host: from which price on and below which it publishes."""
WANTED = {"h2": (0, 1000), "h7": (100, 600), "h16": (400, 1000)}
"""By host: which prices it subscribes to."""
QUEUE = 100_000


def within(bounds):
    return f"price >= {bounds[0]} and price < {bounds[1]}"


class Traffic:
    """Publishers that send all the time, and subscribers that count."""

    def __init__(self):
        self.publishers, self.subscriptions, self.sent = {}, {}, []
        self._going = True

    async def send(self, pause=0.002):
        while self._going:
            for host, (low, high) in PUBLISHERS.items():
                price = float(low + len(self.sent) * 7 % (high - low))
                self.sent.append(price)
                self.publishers[host].publish({"price": price, "volume": 1, "ticker": f"T{len(self.sent)}"})
            await asyncio.sleep(pause)

    def stop(self):
        self._going = False

    async def account(self):
        """Everybody has got what they want, once."""
        for host, (low, high) in WANTED.items():
            info, wanted = self.subscriptions[host].info, sum(low <= price < high for price in self.sent)
            await until(lambda info=info, wanted=wanted: info.delivered >= wanted, 20)
            assert (info.delivered, info.duplicates, info.dropped) == (wanted, 0, 0), host


@asynccontextmanager
async def traffic(url, token):
    async with AsyncExitStack() as stack:
        made = Traffic()
        clients = {
            host: await stack.enter_async_context(pleroma.connect(url, token, host)) for host in (*PUBLISHERS, *WANTED)
        }
        for host, bounds in WANTED.items():
            made.subscriptions[host] = await clients[host].subscribe("stock", within(bounds), queue=QUEUE)
        for host, bounds in PUBLISHERS.items():
            made.publishers[host] = await clients[host].advertise("stock", within(bounds))
        yield made


async def sends_for(made, seconds):
    sending = asyncio.create_task(made.send())
    await asyncio.sleep(seconds)
    made.stop()
    await sending


def moved(service):
    return not service.ask("GET", "/v1/network/trees")["to_move"]


def held(service):
    """The trees, and the rules of all switches."""
    switches = [each["name"] for each in service.ask("GET", "/v1/switches?limit=100")["items"]]
    flows = {name: service.ask("GET", f"/v1/switches/{name}/flows?limit=1000")["items"] for name in switches}
    assert any(flows.values())
    return service.ask("GET", "/v1/network/trees"), flows


@pytest.mark.parametrize("trees", ["forest", "balanced"])
def test_on_several_trees_nothing_is_lost_or_doubled_and_a_kill_changes_neither_trees_nor_rules(tmp_path, trees):
    with ServiceProcess(tmp_path / "state", FAT_TREE, trees=trees) as service:
        service.ask("POST", "/v1/schemas", {"schema": STOCK.to_json()})
        for kind, places in (("advertisements", PUBLISHERS), ("subscriptions", WANTED)):
            for host, bounds in places.items():
                service.ask("POST", f"/v1/{kind}", {"schema": "stock", "filter": within(bounds), "host": host})
        before = held(service)
        assert len(before[0]["trees"]) > 1
        service.kill()
        service.trees = None
        service.start()
        assert held(service) == before
        service.stop()  # with a snapshot
        service.start()
        assert held(service) == before

        async def work():
            async with traffic(service.url, service.token) as made:
                await sends_for(made, 0.5)
                await made.account()
                assert len(made.sent) > 100

        run(work, 60)


def test_schemas_move_to_other_trees_and_back_while_clients_publish(tmp_path):
    async def work():
        async with running(tmp_path, build(FAT_TREE), Deployment(port=0)) as service:
            controller = service.service.controller
            counts = []
            async with pleroma.connect(service.url, service.token, "h1") as somebody:
                await somebody.create_schema(STOCK)
            async with traffic(service.url, service.token) as made:
                sending = asyncio.create_task(made.send())
                for trees in ("balanced", "forest", "single"):
                    await controller.choose_trees(trees)
                    await controller.plan_changes.finished()
                    assert controller.schemas_on_other_trees == []
                    assert controller.plan_changes.stragglers == []
                    counts.append(len(used(controller)))
                made.stop()
                await sending
                await made.account()
            assert counts[0] > 1
            assert counts[1:] == [3, 1]

    run(work, 120)


def used(controller):
    prefix = controller.state.schemas["stock"].prefix
    return {family.tree.links for family in controller.state.router.families if family.region.overlaps(prefix)}


def test_a_service_started_with_other_trees_moves_its_schemas_and_goes_on_with_that_after_a_kill(tmp_path):
    with ServiceProcess(tmp_path / "state", FAT_TREE) as service:
        service.ask("POST", "/v1/schemas", {"schema": STOCK.to_json()})
        service.ask("POST", "/v1/advertisements", {"schema": "stock", "filter": "true", "host": "h1"})
        service.kill()
        service.trees = "balanced"
        service.start()
        service.kill()  # whether or not it has moved
        service.trees = None
        service.start()

        async def work():
            await until(lambda: moved(service), 30)

        run(work, 40)
        found = service.ask("GET", "/v1/network/trees")
        assert found["dealt"] == "balanced"
        assert len(found["trees"]) > 1
