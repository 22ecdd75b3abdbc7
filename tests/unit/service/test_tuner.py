"""The role of the pipeline: it hands over plans, and its token is good for nothing else."""

import asyncio

from pleroma.service.http.gate import OPEN_PATHS
from support.service.in_process import world
from support.waiting import run

MAY = {
    ("GET", "/v1/schemas"),
    ("GET", "/v1/schemas/{name}"),
    ("GET", "/v1/schemas/{name}/plan"),
    ("GET", "/v1/schemas/{name}/plans"),
    ("PUT", "/v1/schemas/{name}/plan"),
    ("GET", "/v1/schemas/{name}/plan/replanning"),
    ("POST", "/v1/schemas/{name}/plan/watching"),
    ("POST", "/v1/schemas/{name}/plan/forecast"),
    ("GET", "/v1/me"),
}
INDEX = {"kind": "grid", "order": [0, 1, 0]}
OTHER = {"kind": "grid", "order": [1, 1, 0]}
PLAN = "/v1/schemas/stock/plan"


def at_once(index, **more):
    return {"index": index, "method": "at_once", **more}


def filled(path):
    return path.replace("{name}", "stock").replace("{id}", "s9").replace("{", "").replace("}", "")


def test_of_all_operations_a_tuner_may_do_nine(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            tuner = await api.principal("watch", "tuner", publish={"*": "true"}, read={"*": "true"})
            position = (await api.get("/health"))["position"]
            refused = 0
            for path, methods in api.app.openapi()["paths"].items():
                for method in map(str.upper, methods):
                    if path in OPEN_PATHS or (method, path) in MAY:
                        continue
                    error = await tuner.error(method, filled(path), 403, "not_allowed", json={})
                    assert (error["field"], error["value"]) == ("role", "tuner")
                    refused += 1
            assert refused > 15
            for method in ("GET", "POST", "PUT", "DELETE"):
                await tuner.error(method, "/v1/made-up-tomorrow", 403, "not_allowed")
                await tuner.error(method, "/v1/schemas/stock/plan/more", 403, "not_allowed")
            assert (await api.get("/health"))["position"] == position

    run(main)


def test_a_tuner_reads_schemas_and_plans_and_hands_one_over(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            tuner = await api.principal("watch", "tuner")
            assert len((await tuner.get("/v1/schemas"))["items"]) == 1
            assert (await tuner.get("/v1/schemas/stock"))["epoch"] == 1
            assert (await tuner.get(PLAN))["epoch"] == 1
            done = (await tuner("PUT", PLAN, 200, json={"index": INDEX, "epoch": 1})).json()
            assert (done["epoch"], done["phase"]) == (2, "settled")
            assert [each["epoch"] for each in (await tuner.get("/v1/schemas/stock/plans"))["items"]] == [1, 2]
            assert (await api.get("/v1/principals/watch"))["role"] == "tuner"

    run(main)


def test_a_plan_that_is_to_follow_another_than_the_one_in_force_is_refused(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            for method in ("lightweight", "versioning", "at_once"):
                epoch = (await api.get(PLAN))["epoch"]
                index = OTHER if epoch % 2 else INDEX
                body = {"index": index, "method": method, "epoch": epoch}
                assert (await api("PUT", PLAN, 200, json=body)).json()["epoch"] == epoch + 1
                error = await api.error("PUT", PLAN, 409, "plan_moved", json=body)
                assert (error["field"], error["value"]) == ("epoch", epoch)
                assert (await api.get(PLAN))["epoch"] == epoch + 1

    run(main)


def test_of_two_that_judged_by_the_same_plan_one_changes_it(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            answers = await asyncio.gather(
                api("PUT", PLAN, json=at_once(INDEX, epoch=1)), api("PUT", PLAN, json=at_once(OTHER, epoch=1))
            )
            assert sorted(each.status_code for each in answers) == [200, 409]
            assert (await api.get(PLAN))["epoch"] == 2

    run(main)


def test_a_plan_that_followed_another_is_in_force_after_a_restart(tmp_path):
    async def change():
        async with world(tmp_path) as api:
            await api("PUT", PLAN, 200, json=at_once(INDEX, epoch=1))
            await api("PUT", PLAN, 200, json={"index": OTHER, "epoch": 2})

    async def again():
        async with world(tmp_path) as api:
            assert (await api.get(PLAN))["epoch"] == 3
            assert (await api.get(PLAN))["plan"]["index"]["order"] == OTHER["order"]

    run(change)
    run(again)
