"""What a filter becomes under the plan in force, and which part of the traffic it brings."""

from contextlib import asynccontextmanager

import pytest

from pleroma.content import Filter
from pleroma.control import AdoptPlan
from pleroma.index import Dz, GridIndex, Rectangle, SelectiveIndex, SelectiveRegion, TreeIndex
from pleroma.index.tree_walk import LEAF
from support.service.in_process import world
from support.service.with_lake import STOCK, collecting
from support.waiting import run

PRICE, VOLUME = STOCK.position("price"), STOCK.position("volume")
TREE = TreeIndex(STOCK, 20, (PRICE, VOLUME, LEAF, LEAF, LEAF), (100.0, 50.0))
COLUMNS = {"price": [5.0, 95.0, 95.0, 120.0, 200.0], "volume": [10, 10, 70, 1, 1], "ticker": ["A"] * 5}
SAMPLES = {"schema": "stock", "epoch": 2, "rate": 0.5, "ages": [0.0] * 5, "columns": COLUMNS}


@asynccontextmanager
async def with_a_tree(folder):
    async with collecting(folder) as (api, _, _):
        await api.app.state.service.controller.submit(AdoptPlan("stock", TREE))
        yield api


def explain(api, filter, **more):
    return api.post("/v1/explain", {"schema": "stock", "filter": filter, **more}, 200)


def test_a_subscription_tells_what_it_brings_and_what_it_wants(tmp_path):
    async def main():
        async with with_a_tree(tmp_path) as api:
            made = await api.subscribe("price < 10", "h2")
            assert made["share"] is None
            await api.post("/v1/samples", SAMPLES, 202)
            found = await api.get(f"/v1/subscriptions/{made['id']}")
            assert found["share"] == {"delivered": 0.6, "wanted": 0.2, "events": 5}
            again = await api.subscribe("price < 90 and volume < 20", "h1")
            assert again["share"] == {"delivered": 0.4, "wanted": 0.2, "events": 5}
            await api.post("/v1/samples", SAMPLES, 202)
            assert (await api.get(f"/v1/subscriptions/{made['id']}"))["share"]["events"] == 10
            assert "share" not in await api.advertise("true", "h1")

    run(main)


def test_the_share_is_that_of_the_plan_in_force(tmp_path):
    async def main():
        async with with_a_tree(tmp_path) as api:
            await api.post("/v1/samples", SAMPLES, 202)
            made = await api.subscribe("price < 10", "h2")
            assert made["share"]["delivered"] == 0.6
            finer = TreeIndex(STOCK, 20, (PRICE, LEAF, LEAF), (10.0,))
            await api.app.state.service.controller.submit(AdoptPlan("stock", finer))
            assert (await api.get(f"/v1/subscriptions/{made['id']}"))["share"]["delivered"] == 0.2

    run(main)


def test_a_filter_is_explained_as_a_subscription_to_it_would_be(tmp_path):
    async def main():
        async with with_a_tree(tmp_path) as api:
            await api.post("/v1/samples", SAMPLES, 202)
            found = await explain(api, "price < 90 and volume < 20 and ticker == 'A'")
            made = await api.subscribe("price < 90 and volume < 20 and ticker == 'A'", "h1")
            service = api.app.state.service
            entry, region = service.state.schemas["stock"], service.state.registrations[made["id"]].region
            assert [each["prefix"] for each in found["cover"]] == [
                str(service.plane.addresses.prefix(dz)) for dz in region
            ]
            assert [each["dz"] for each in found["cover"]] == ["00"]
            assert (found["members"], found["limit"]) == (made["members"], entry.plan.members)
            assert (found["space"], found["finer"]) == (0.25, {"members": 1, "space": 0.25})
            assert found["share"] == made["share"]
            assert (found["epoch"], found["schema"], found["filter"]) == (entry.epoch, "stock", made["filter"])
            assert found["index"] == {"kind": "tree", "bits": 20, "attributes": ["price", "volume"]}
            assert found["ignored"] == ["ticker"]
            again = await api.post("/v1/explain", {"schema": "stock", "boxes": found["boxes"]}, 200)
            assert again == found

    run(main)


@pytest.mark.parametrize(
    ("wanted", "ignored"),
    [
        ("true", []),
        ("price > 150", []),
        ("volume > 5", ["volume"]),
        ("price > 150 and volume > 5", ["volume"]),
        ("price < 90 and volume < 5", []),
        ("price > 150 or market == 'nyse'", ["market", "price"]),
        ("price < 5 and price > 6", []),
    ],
)
def test_it_names_the_attributes_that_the_cover_does_not_look_at(tmp_path, wanted, ignored):
    async def main():
        async with with_a_tree(tmp_path) as api:
            assert sorted((await explain(api, wanted))["ignored"]) == ignored

    run(main)


def test_without_samples_there_is_no_share(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            found = await explain(api, "price > 5")
            assert (found["share"], found["index"]["kind"]) == (None, "grid")

    run(main)


def test_rectangles_are_explained_too(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            sides = tuple(attribute.extent for attribute in STOCK.attributes)
            grid = GridIndex.regular(STOCK, 4)
            regions = SelectiveRegion(Dz.parse("0"), Rectangle(sides), grid), SelectiveRegion(Dz.parse("1"), None, grid)
            index = SelectiveIndex(STOCK, regions, quiet=True)
            await api.app.state.service.controller.submit(AdoptPlan("stock", index))
            found = await explain(api, "price > 5")
            cover = index.opened().cover(Filter.parse(STOCK, "price > 5"), max_members=found["limit"])
            assert [each["dz"] for each in found["cover"]] == [str(dz) for dz in cover]
            assert (found["index"]["kind"], found["ignored"]) == ("selective", ["price"])

    run(main)


def test_only_who_may_subscribe_to_a_filter_has_it_explained(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            ann = await api.principal("ann", "both", read={"stock": "price >= 50"})
            await explain(ann, "price >= 60")
            body = {"schema": "stock", "filter": "price >= 40"}
            assert (await ann.error("POST", "/v1/explain", 403, "not_allowed", json=body))["field"] == "filter"
            for role in ("publisher", "tuner"):
                other = await api.principal(role, role, **({"publish": {"*": "true"}} if role == "publisher" else {}))
                await other.error("POST", "/v1/explain", 403, "not_allowed", json=body)

    run(main)


def test_what_cannot_be_explained_is_refused(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            for body, field in (
                ({"schema": "stock", "filter": "prise > 3"}, "filter"),
                ({"schema": "flock", "filter": "true"}, "schema"),
                ({"schema": "stock"}, None),
                ({"schema": "stock", "filter": "true", "boxes": []}, None),
                ({"schema": "stock", "filter": "true", "host": "h1"}, "host"),
            ):
                answer = await api("POST", "/v1/explain", json=body)
                assert answer.status_code in (400, 404)
                assert field in (None, answer.json()["error"]["field"])

    run(main)
