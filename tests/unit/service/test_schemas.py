"""Schemas and their plans over HTTP."""

from pathlib import Path

from pleroma.content import Schema
from pleroma.content.batch import EventBatch
from pleroma.index import GridIndex, IndexPlan
from pleroma.service.http.examples import EXAMPLE_INDEX, EXAMPLE_PLAN, EXAMPLE_SCHEMA
from pleroma.wire import fingerprint
from support.service.in_process import world
from support.waiting import run

STOCK = Schema.from_json(EXAMPLE_SCHEMA)


def test_a_schema_gets_a_number_a_prefix_and_a_first_plan(tmp_path):
    async def main():
        async with world(tmp_path, schema=False) as api:
            first = await api.post("/v1/schemas", {"schema": EXAMPLE_SCHEMA})
            assert first == {
                "schema": STOCK.to_json(),
                "number": 0,
                "prefix": "000000",
                "fingerprint": fingerprint(STOCK),
                "epoch": 1,
                "version": 1,
            }
            second = await api.post("/v1/schemas", {"schema": EXAMPLE_SCHEMA | {"name": "other"}, "bits": 10})
            assert (second["number"], second["prefix"]) == (1, "000001")
            assert await api.get("/v1/schemas/other") == second
            assert await api.get("/v1/schemas") == {"items": [first, second], "next": None}
            plan = IndexPlan.loads((await api("GET", "/v1/schemas/other/plan")).text.split('"plan":')[1][:-1])
            assert plan.index.bits == 10

    run(main)


def test_schemas_come_in_pages(tmp_path):
    async def main():
        async with world(tmp_path, schema=False) as api:
            for name in "abc":
                await api.post("/v1/schemas", {"schema": EXAMPLE_SCHEMA | {"name": name}})
            page = await api.get("/v1/schemas?limit=2")
            assert [each["schema"]["name"] for each in page["items"]] == ["a", "b"]
            rest = await api.get(f"/v1/schemas?limit=2&after={page['next']}")
            assert [each["schema"]["name"] for each in rest["items"]] == ["c"]
            assert rest["next"] is None

    run(main)


def test_bad_schemas_are_refused_with_the_field(tmp_path):
    async def main():
        async with world(tmp_path) as api:

            async def refused(body, status, code):
                return await api.error("POST", "/v1/schemas", status, code, json=body)

            assert (await refused({"schema": EXAMPLE_SCHEMA}, 409, "already_there"))["value"] == "stock"
            assert (await refused({}, 400, "bad_request"))["field"] == "schema"
            assert (await refused({"schema": EXAMPLE_SCHEMA, "bitz": 1}, 400, "bad_request"))["field"] == "bitz"
            assert (await refused({"schema": EXAMPLE_SCHEMA, "bits": "8"}, 400, "bad_request"))["field"] == "bits"
            error = await refused({"schema": EXAMPLE_SCHEMA | {"name": "x"}, "bits": 112}, 400, "plan_error")
            assert (error["field"], error["value"]) == ("bits", 112)
            error = await refused(
                {"schema": {"name": "x", "attribute": [{"name": "a", "kind": "reel"}]}}, 400, "unknown_name"
            )
            assert "did you mean 'real'?" in error["reason"]
            error = await refused({"schema": EXAMPLE_SCHEMA | {"name": "a/b"}}, 400, "bad_request")
            assert (error["field"], error["value"]) == ("schema.name", "a/b")
            assert len((await api.get("/v1/schemas"))["items"]) == 1

    run(main)


def test_an_unknown_schema_is_not_found_and_the_nearest_is_named(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            for path in ("/v1/schemas/stok", "/v1/schemas/stok/plan", "/v1/schemas/stok/plans"):
                assert "did you mean 'stock'?" in (await api.error("GET", path, 404, "not_found"))["reason"]
            await api.error("PUT", "/v1/schemas/stok/plan", 404, "not_found", json={"index": EXAMPLE_INDEX})

    run(main)


def test_the_plan_can_be_read_and_has_an_etag_that_changes_with_it(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            answer = await api("GET", "/v1/schemas/stock/plan")
            etag = answer.headers["etag"]
            body = answer.json()
            assert (body["epoch"], body["number"], body["prefix"]) == (1, 0, "000000")
            assert body["plan"]["checksum"] == IndexPlan(1, GridIndex.regular(STOCK, 56)).checksum
            for known in (etag, f"W/{etag}", f'"other", {etag}'):
                same = await api("GET", "/v1/schemas/stock/plan", 304, headers={"If-None-Match": known})
                assert same.headers["etag"] == etag
            assert await api("PUT", "/v1/schemas/stock/plan", 200, json={"index": EXAMPLE_INDEX})
            again = await api("GET", "/v1/schemas/stock/plan", 200, headers={"If-None-Match": etag})
            assert again.json()["epoch"] == 2
            assert again.headers["etag"] != etag

    run(main)


def test_adopting_a_plan_keeps_the_history_and_covers_anew(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            made = await api.subscribe("price between 100 and 200 and volume < 50")
            assert (await api("PUT", "/v1/schemas/stock/plan", 200, json={"index": EXAMPLE_INDEX})).json() == {
                "schema": "stock",
                "epoch": 2,
                "phase": "settled",
            }
            anew = await api.get(f"/v1/subscriptions/{made['id']}")
            assert anew["epoch"] == 2
            assert anew["members"] < made["members"]
            history = await api.get("/v1/schemas/stock/plans")
            assert [each["epoch"] for each in history["items"]] == [1, 2]
            assert history["items"][1]["plan"]["index"] == EXAMPLE_INDEX
            page = await api.get("/v1/schemas/stock/plans?limit=1")
            assert (len(page["items"]), page["next"]) == (1, "1")
            rest = await api.get("/v1/schemas/stock/plans?limit=1&after=1")
            assert ([each["epoch"] for each in rest["items"]], rest["next"]) == ([2], None)
            error = await api.error("PUT", "/v1/schemas/stock/plan", 400, "plan_error", json={"index": {"kind": "x"}})
            assert error["field"] == "index"
            assert (await api.get("/v1/schemas/stock"))["epoch"] == 2

    run(main)


def test_the_examples_of_the_document_are_true():
    assert IndexPlan(1, GridIndex.regular(STOCK, 8)).checksum == EXAMPLE_PLAN["checksum"]
    assert Schema.load(Path(__file__).parents[3] / "examples" / "stock.toml") == STOCK


def test_a_schema_that_is_not_in_use_can_be_removed_by_an_administrator(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            sue = await api.principal("sue", read={"stock": "price > 5"})
            await sue.error("DELETE", "/v1/schemas/stock", 403, "not_allowed")
            made = await api.subscribe("price > 10")
            error = await api.error("DELETE", "/v1/schemas/stock", 409, "already_there")
            assert f"{made['id']} of" in error["reason"]
            await api("DELETE", f"/v1/subscriptions/{made['id']}", 204)
            removed = (await api("DELETE", "/v1/schemas/stock", 200)).json()
            assert removed == {"schema": "stock", "principals": ["sue"]}
            await api.error("GET", "/v1/schemas/stock/plan", 404, "not_found")
            await api.error("DELETE", "/v1/schemas/stock", 404, "not_found")
            again = await api.post("/v1/schemas", {"schema": EXAMPLE_SCHEMA})
            assert (again["number"], again["prefix"], again["epoch"]) == (1, "000000", 2)
            assert (await api.get("/v1/principals/sue"))["read"] == {}
            assert set((await api.get("/v1/statistics"))["by_schema"]) == {"stock"}

    run(main)


def test_what_was_sampled_of_a_removed_schema_is_nothing_of_a_later_one_of_its_name(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            service = api.app.state.service
            service.samples.recent.add(EventBatch.from_events(STOCK, [STOCK.event(price=1, volume=2, ticker="A")]))
            await api("DELETE", "/v1/schemas/stock", 200)
            assert service.samples.recent.of("stock") is None
            assert (await api.get("/v1/statistics"))["by_schema"] == {}

    run(main)
