"""The plan in force as a tree over HTTP, with the rules and the waste of every node."""

from contextlib import asynccontextmanager

import numpy as np

from pleroma.content import Schema
from pleroma.content.batch import EventBatch
from pleroma.control import AdoptPlan, Controller, CreatePrincipal, CreateSchema
from pleroma.index import Dz, GridIndex, Rectangle, SelectiveIndex, SelectiveRegion, TreeIndex
from pleroma.index.tree_walk import LEAF
from pleroma.routing import build
from pleroma.service import CollectingSettings, create_app
from pleroma.service.collecting.collection import Collection
from pleroma.service.collecting.recent_events import RecentEvents
from pleroma.service.http.examples import EXAMPLE_SCHEMA
from pleroma.service.http.tokens import digest
from pleroma.service.http.tree_costs import plan_nodes
from pleroma.service.planes.embedded_plane import EmbeddedPlane
from pleroma.switches.live.live_network import LiveNetwork
from support.service.in_process import ADMIN, UNLIMITED, Api, world
from support.waiting import run

STOCK = Schema.from_json(EXAMPLE_SCHEMA)
PRICE, VOLUME = STOCK.position("price"), STOCK.position("volume")
TREE = TreeIndex(STOCK, 20, (PRICE, VOLUME, LEAF, LEAF, LEAF), (100.0, 50.0))
PATH = "/v1/schemas/stock/plan/tree"
ALL = ["", "0", "00", "01", "1"]


@asynccontextmanager
async def with_a_tree(tmp_path, index=TREE):
    async with world(tmp_path) as api:
        await api("PUT", "/v1/schemas/stock/plan", 200, json={"index": index.to_json(), "method": "at_once"})
        await api.advertise("true", "h1")
        yield api


def by_dz(answer):
    return {node["dz"]: node for node in answer["items"]}


def test_it_is_the_tree_of_the_plan_in_force(tmp_path):
    async def main():
        async with with_a_tree(tmp_path) as api:
            answer = await api.get(PATH)
            assert (answer["kind"], answer["bits"], answer["leaves"], answer["epoch"]) == ("tree", 20, 3, 2)
            assert [node["dz"] for node in answer["items"]] == ALL
            assert answer["next"] is None
            found = by_dz(answer)
            assert (found[""]["attribute"], found[""]["cut"], found[""]["children"]) == ("price", 100.0, ["0", "1"])
            assert (found["0"]["attribute"], found["0"]["leaves"]) == ("volume", 2)
            assert (found["01"]["attribute"], found["01"]["children"]) == (None, None)

    run(main)


def test_it_comes_from_any_node_so_deep_and_in_pages(tmp_path):
    async def main():
        async with with_a_tree(tmp_path) as api:
            assert list(by_dz(await api.get(f"{PATH}?depth=1"))) == ["", "0", "1"]
            assert list(by_dz(await api.get(f"{PATH}?at=0"))) == ["0", "00", "01"]
            seen, after = [], ""
            while after is not None:
                answer = await api.get(f"{PATH}?limit=2" + (f"&after={after}" if after else ""))
                seen += [node["dz"] for node in answer["items"]]
                after = answer["next"]
            assert seen == ALL

    run(main)


def test_every_rule_is_counted_at_its_node_and_above(tmp_path):
    async def main():
        async with with_a_tree(tmp_path) as api:
            await api.subscribe("price < 90 and volume < 20", "h2")
            await api.subscribe("price > 150", "h3")
            await api.subscribe("price > 160", "h2")
            answer = by_dz(await api.get(PATH))
            tables = api.app.state.service.state.router.tables
            prefix = api.app.state.service.state.schemas["stock"].prefix
            for bits, node in answer.items():
                cell = prefix.then(Dz.parse(bits))
                counts = [sum(cell.covers(flow.dz) for flow in table) for table in tables.values()]
                assert (node["rules"], node["fullest"]) == (sum(counts), max(counts))
            assert answer[""]["rules"] == answer["00"]["rules"] + answer["1"]["rules"] > 0
            assert answer["01"]["rules"] == 0

    run(main)


def test_a_node_that_longer_rules_fill_has_no_rule_of_its_own(tmp_path):
    async def main():
        async with with_a_tree(tmp_path) as api:
            await api.advertise("true", "h4")
            await api.subscribe("price < 100", "h3")
            await api.subscribe("price < 100 and volume < 50", "h1")
            assert by_dz(await api.get(PATH))["0"]["fullest"] == 2  # the node, and its lower part
            await api.subscribe("price < 100 and volume >= 50", "h2")
            found = by_dz(await api.get(PATH))
            assert [found[dz]["fullest"] for dz in ("0", "00", "01")] == [2, 1, 1]

    run(main)


def test_without_samples_nobody_knows_the_waste(tmp_path):
    async def main():
        async with with_a_tree(tmp_path) as api:
            answer = await api.get(PATH)
            assert answer["events"] is None
            assert answer["items"][0]["deliveries"] is answer["items"][0]["wasted_at_hosts"] is None

    run(main)


@asynccontextmanager
async def sampling(folder):
    """The same with a lake, so that samples are taken."""
    line = build("line:4")
    async with (
        LiveNetwork(line, loopback=True) as network,
        await Controller.open(folder / "service", line, network) as controller,
    ):
        for command in (CreatePrincipal("admin", "admin", digest(ADMIN)), CreateSchema(STOCK)):
            await controller.submit(command)
        await controller.submit(AdoptPlan("stock", TREE))
        settings = CollectingSettings(str(folder / "lake"), sample=0.5)
        plane = EmbeddedPlane(network)
        async with await Collection.open(controller, settings, plane) as collection:
            api = Api(create_app(controller, plane, UNLIMITED, collection))
            async with api.client:
                await api.advertise("true", "h1")
                yield api


def test_the_waste_of_a_node_is_that_of_the_events_in_it(tmp_path):
    async def main():
        async with sampling(tmp_path) as api:
            await api.subscribe("price < 90 and volume < 20", "h2")
            await api.subscribe("price < 10", "h2")
            await api.subscribe("price > 150", "h3")
            columns = {"price": [5.0, 95.0, 95.0, 120.0, 200.0], "volume": [10, 10, 70, 1, 1], "ticker": ["A"] * 5}
            samples = {"schema": "stock", "epoch": 2, "rate": 0.5, "ages": [0.0] * 5, "columns": columns}
            await api.post("/v1/samples", samples, 202)
            answer = await api.get(PATH)
            found = by_dz(answer)
            assert answer["events"] == 5

            def counts(dz):
                return tuple(found[dz][name] for name in ("events", "deliveries", "wasted_at_hosts"))

            assert counts("00") == (2, 2, 1)  # the second is nobody's
            assert counts("01") == (1, 1, 1)  # of price < 10 there is nothing
            assert counts("1") == (2, 2, 1)
            assert counts("") == (5, 5, 3)
            await api.subscribe("price > 100", "h4")
            assert by_dz(await api.get(PATH))["1"]["deliveries"] == 4
            await api.post("/v1/samples", samples, 202)
            assert by_dz(await api.get(PATH))[""]["events"] == 10

    run(main)


def test_a_grid_is_a_tree_as_well(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            answer = await api.get(f"{PATH}?depth=1")
            assert (answer["kind"], answer["leaves"]) == ("grid", None)
            assert list(by_dz(answer)) == ["", "0", "1"]
            grid = api.app.state.service.state.schemas["stock"].index
            root = answer["items"][0]
            d = grid.order[0]
            low, high = STOCK.attributes[d].extent
            assert (root["attribute"], low < root["cut"] < high) == (STOCK.names[d], True)

    run(main)


def test_rectangles_are_no_tree(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            sides = tuple(attribute.extent for attribute in STOCK.attributes)
            grid = GridIndex.regular(STOCK, 2)
            regions = SelectiveRegion(Dz.parse("0"), Rectangle(sides), grid), SelectiveRegion(Dz.parse("1"), None, grid)
            await api.app.state.service.controller.submit(AdoptPlan("stock", SelectiveIndex(STOCK, regions)))
            assert (await api.error("GET", PATH, 409, "no_tree"))["value"] == "selective"

    run(main)


def test_what_is_asked_for_wrongly_is_refused(tmp_path):
    async def main():
        async with with_a_tree(tmp_path) as api:
            assert (await api.error("GET", f"{PATH}?at=2", 400, "bad_request"))["field"] == "at"
            assert (await api.error("GET", f"{PATH}?at=0000", 400, "dz_error"))["value"] == "0000"
            assert (await api.error("GET", f"{PATH}?depth=-1", 400, "bad_request"))["field"] == "depth"
            await api.error("GET", "/v1/schemas/nothing/plan/tree", 404, "not_found")
            other = await api.principal("pat", "both")
            await other.error("GET", PATH, 403, "not_allowed")

    run(main)


def test_only_so_many_events_are_kept():
    recent = RecentEvents(max_events=10)
    for number in range(7):
        prices = np.full(4, float(number))
        recent.add(EventBatch.from_columns(STOCK, {"price": prices, "volume": np.ones(4, int), "ticker": ["A"] * 4}))
    kept = recent.of("stock")
    assert len(kept) == 10
    assert kept.columns[PRICE].tolist() == [4.0] * 2 + [5.0] * 4 + [6.0] * 4
    assert recent.of("other") is None


def test_the_nodes_behind_one_are_found_without_looking_at_those_before():
    schema = Schema.from_json(EXAMPLE_SCHEMA)
    tree = TreeIndex(schema, 3, (0, 1, LEAF, 0, LEAF, LEAF, LEAF), (0.5, 0.5, 0.5))
    for index in (tree, GridIndex.regular(schema, 5)):
        everything = list(plan_nodes(index))
        for place, node in enumerate(everything):
            assert list(plan_nodes(index, after=node.dz)) == everything[place + 1 :]
    deep = GridIndex.regular(schema, 40)  # nobody can look at all of it
    last = Dz.parse("1" * 39 + "0")
    assert [str(node.dz) for node in plan_nodes(deep, after=last)] == ["1" * 40]
