"""Moving to another plan over HTTP: what is answered, how far it is, and what clients say about it."""

import asyncio

import pytest

from pleroma.control import PlanChangeTiming
from pleroma.service.http.examples import EXAMPLE_INDEX, EXAMPLE_SCHEMA
from support.service.in_process import world
from support.waiting import run, until

PLAN = "/v1/schemas/stock/plan"
OTHER = EXAMPLE_INDEX | {"order": [0, 0, 0]}
WITHOUT_WAITING = PlanChangeTiming(unleased_seconds=0.0, leased_seconds=0.0)
UNLEASED_AT_ONCE = PlanChangeTiming(unleased_seconds=0.0)


@pytest.mark.parametrize("method", ["lightweight", "versioning", "at_once"])
def test_a_change_is_answered_when_it_is_over(tmp_path, method):
    async def main():
        async with world(tmp_path, timing=UNLEASED_AT_ONCE) as api:
            made = await api.subscribe("price between 100 and 200")
            await api.advertise()
            answer = await api("PUT", PLAN, 200, json={"index": EXAMPLE_INDEX, "method": method})
            assert answer.json() == {"schema": "stock", "epoch": 2, "phase": "settled"}
            assert (await api.get(PLAN))["phase"] == "settled"
            assert (await api.get(f"/v1/subscriptions/{made['id']}"))["epoch"] == 2
            before = await api.get("/v1/schemas/stock")
            again = await api("PUT", PLAN, 200, json={"index": EXAMPLE_INDEX, "method": method})
            assert again.json()["epoch"] == 2
            assert await api.get("/v1/schemas/stock") == before

    run(main)


def test_a_change_that_is_under_way_says_how_far_it_is(tmp_path):
    async def main():
        async with world(tmp_path, timing=UNLEASED_AT_ONCE) as api:
            await api.advertise(lease="mine")
            first = await api("GET", PLAN)
            answer = await api("PUT", PLAN, 202, json={"index": EXAMPLE_INDEX, "wait": False})
            assert answer.json() == {"schema": "stock", "epoch": 1, "phase": "prepared"}
            await until(lambda: api.app.state.service.state.schemas["stock"].epoch == 2)
            during = await api("GET", PLAN, 200, headers={"If-None-Match": first.headers["etag"]})
            assert (during.json()["epoch"], during.json()["phase"]) == (2, "swapped")
            metrics = (await api("GET", "/metrics")).text
            assert 'pleroma_plan_changing{schema="stock"} 2.0' in metrics
            error = await api.error("PUT", PLAN, 409, "plan_changing", json={"index": OTHER})
            assert error["value"] == "stock"
            await api("PUT", "/v1/leases/mine", 200, json={"plans": {"stock": 2}})
            await until(lambda: api.app.state.service.state.plans.change is None)
            after = await api("GET", PLAN, 200, headers={"If-None-Match": during.headers["etag"]})
            assert after.json() == during.json() | {"phase": "settled"}
            assert 'pleroma_plan_changing{schema="stock"} 0.0' in (await api("GET", "/metrics")).text

    run(main)


def test_the_stream_tells_the_phases(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            with api.app.state.service.controller.feed.subscribe() as reader:
                await api("PUT", PLAN, 200, json={"index": EXAMPLE_INDEX})
                told = []
                async with asyncio.timeout(20):
                    async for item in reader:
                        if item["type"] == "plan":
                            told.append((item["epoch"], item["phase"]))
                        if len(told) == 3:
                            break
            assert told == [(1, "prepared"), (2, "swapped"), (2, "done")]

    run(main)


def test_an_earlier_plan_can_be_had_back(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            first = (await api.get(PLAN))["plan"]["index"]
            await api("PUT", PLAN, 200, json={"index": EXAMPLE_INDEX})
            await api("PUT", PLAN, 200, json={"index": OTHER})
            back = await api("POST", f"{PLAN}/rollback", 200, json={})
            assert back.json() == {"schema": "stock", "epoch": 4, "phase": "settled"}
            assert (await api.get(PLAN))["plan"]["index"]["order"] == EXAMPLE_INDEX["order"]
            await api("POST", f"{PLAN}/rollback", 200, json={"epoch": 1, "method": "at_once"})
            assert (await api.get(PLAN))["plan"]["index"] == first
            error = await api.error("POST", f"{PLAN}/rollback", 404, "not_found", json={"epoch": 17})
            assert (error["field"], error["value"]) == ("epoch", 17)
            await api.error("POST", f"{PLAN}/rollback", 400, "bad_request", json={"method": "hope"})

    run(main)


def test_a_plan_has_its_own_limit_of_cells(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            made = await api.subscribe("price between 100 and 200 and volume < 50")
            first = await api.get(PLAN)
            assert (first["members"], first["plan"]["members"], made["members"]) == (8, 8, 8)
            index = first["plan"]["index"]
            with api.app.state.service.controller.feed.subscribe() as reader:
                answer = await api("PUT", PLAN, 200, json={"index": index, "members": 3, "wait": False})
                assert answer.json() == {"schema": "stock", "epoch": 2, "phase": "settled"}
                async with asyncio.timeout(20):
                    told = await anext(each async for each in reader if each["type"] == "plan")
            assert (told["epoch"], "phase" in told) == (2, False)  # it is over at once
            now = await api.get(PLAN)
            assert (now["members"], now["plan"]["members"], now["plan"]["index"]) == (3, 3, index)
            assert (await api.get(f"/v1/subscriptions/{made['id']}"))["members"] == 3
            for same in ({}, {"members": 3}, {"members": 3, "method": "at_once"}):
                assert (await api("PUT", PLAN, 200, json={"index": index} | same)).json()["epoch"] == 2
            await api("PUT", PLAN, 200, json={"index": index, "members": 40, "method": "at_once"})
            await api("PUT", PLAN, 200, json={"index": EXAMPLE_INDEX})
            assert (await api.get(PLAN))["members"] == 40
            await api("POST", f"{PLAN}/rollback", 200, json={"epoch": 2})
            assert [each["members"] for each in (await api.get("/v1/schemas/stock/plans"))["items"]] == [
                8,
                3,
                40,
                40,
                3,
            ]
            for wrong in (0, 4097, "many", 2.5):
                error = await api.error("PUT", PLAN, 400, "bad_request", json={"index": index, "members": wrong})
                assert error["field"] == "members"
            assert (await api.get(PLAN))["epoch"] == 5

    run(main)


def test_a_schema_may_begin_with_another_limit(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            other = EXAMPLE_SCHEMA | {"name": "other"}
            await api("POST", "/v1/schemas", 201, json={"schema": other, "members": 64})
            assert (await api.get("/v1/schemas/other/plan"))["members"] == 64
            error = await api.error(
                "POST", "/v1/schemas", 400, "bad_request", json={"schema": other | {"name": "no"}, "members": 0}
            )
            assert error["field"] == "members"

    run(main)


def test_there_is_nothing_before_the_first_plan(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            await api.error("POST", f"{PLAN}/rollback", 404, "not_found", json={})

    run(main)


def test_a_client_two_plans_behind_is_told_and_keeps_its_lease(tmp_path):
    async def main():
        async with world(tmp_path, timing=WITHOUT_WAITING) as api:
            made = await api.advertise(lease="mine")
            for index in (EXAMPLE_INDEX, OTHER):
                await api("PUT", PLAN, 200, json={"index": index})
            error = await api.error("PUT", "/v1/leases/mine", 409, "plan_too_old", json={"plans": {"stock": 1}})
            assert "2 behind" in error["reason"]
            for plans in ({"stock": 2}, {"stock": 3}, {"unheard": 7}):
                kept = await api("PUT", "/v1/leases/mine", 200, json={"plans": plans})
                assert kept.json()["registrations"] == [made["id"]]
            assert (await api("PUT", "/v1/leases/mine", 200)).json()["registrations"] == [made["id"]]
            await api.error("PUT", "/v1/leases/mine", 400, "bad_request", json={"plans": {"stock": "x"}})

    run(main)


def test_the_history_tells_who_asked_for_a_plan_what_was_predicted_and_what_it_did(tmp_path):
    async def main():
        async with world(tmp_path, timing=WITHOUT_WAITING) as api:
            made = await api.subscribe("price between 100 and 200")
            report = {"subscriptions": {made["id"]: {"delivered": 3, "wasted": 1}}}
            await api("POST", "/v1/reports", 204, json=report)
            predicted = {"waste_at_hosts": 0.125, "rules": 7}
            await api("PUT", PLAN, 200, json={"index": EXAMPLE_INDEX, "predicted": predicted})
            await api("POST", f"{PLAN}/rollback", 200, json={"epoch": 2, "method": "at_once"})
            first, second = (await api.get("/v1/schemas/stock/plans"))["items"][:2]
            assert first["origin"] is None
            assert (first["measured"]["packets"], first["measured"]["waste_at_hosts"]) == (4, 0.25)
            assert second["origin"]["by"] == "admin"
            assert second["origin"]["at"].startswith("20")
            told = {name: value for name, value in second["origin"]["predicted"].items() if value is not None}
            assert told == predicted
            assert (second["measured"]["packets"], second["measured"]["waste_at_hosts"]) == (0, None)
            assert "origin" not in await api.get(PLAN)
            await api.error("PUT", PLAN, 400, "bad_request", json={"index": OTHER, "predicted": {"rules": -1}})

    run(main)


def test_others_do_not_learn_who_asked_for_a_plan(tmp_path):
    async def main():
        async with world(tmp_path, timing=WITHOUT_WAITING) as api:
            await api("PUT", PLAN, 200, json={"index": EXAMPLE_INDEX})
            ann = await api.principal("ann", "subscriber", read={"stock": "true"})
            for other in (ann, await api.principal("watch", "tuner")):
                plans = (await other.get("/v1/schemas/stock/plans"))["items"]
                assert len(plans) == 2
                assert not any("origin" in each or "measured" in each for each in plans)

    run(main)
