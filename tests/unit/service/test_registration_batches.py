"""Many registrations and withdrawals in one request: each item has a result of its own, and no other waits for it."""

import asyncio
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from pleroma.service import ServiceSettings
from pleroma.service.http.batch_slices import SLICE_ITEMS
from pleroma.service.http.forgery.event_keys import EventKeys
from support.service.in_process import UNLIMITED, world
from support.stalls import longest_stall
from support.waiting import run

MAX_STALL_SECONDS = 0.05


def item(filter="true", host="h2", **more):
    return {"schema": "stock", "filter": filter, "host": host, **more}


async def batch(api, items, kind="subscriptions", expect=200):
    return (await api.post(f"/v1/{kind}:batch", {"items": items}, expect))["results"]


async def withdrawn(api, ids, kind="subscriptions"):
    return (await api.post(f"/v1/{kind}:withdraw", {"ids": ids}, 200))["results"]


def statuses(results):
    return [each["status"] for each in results]


def test_items_are_registered_as_if_each_had_come_alone(tmp_path):
    async def main():
        async with world(tmp_path, keys=EventKeys.open(tmp_path)) as api:
            alone = await api.subscribe("price >= 50", "h3")
            first, second = await batch(api, [item("price >= 50", "h3"), item("volume < 3", "h4")])
            assert first["registration"] == {
                name: value for name, value in alone.items() if name not in ("filter", "share")
            } | {"id": first["registration"]["id"]}
            assert first["registration"]["id"] != alone["id"]
            read = await api.get(f"/v1/subscriptions/{second['registration']['id']}")
            assert (read["filter"], read["host"], read["event_key"]) == ("volume <= 2", "h4", alone["event_key"])

    run(main)


def test_advertisements_come_with_their_publisher_numbers_and_keys(tmp_path):
    async def main():
        async with world(tmp_path, keys=EventKeys.open(tmp_path)) as api:
            made = [each["registration"] for each in await batch(api, [item(), item("price < 5")], "advertisements")]
            for each in made:
                assert each["id"] == f"a{each['publisher']}"
                read = await api.get(f"/v1/advertisements/{each['id']}")
                assert read["event_key"] == each["event_key"]
            assert made[0]["event_key"] != made[1]["event_key"]

    run(main)


def test_each_item_has_its_own_result_in_order_and_a_wrong_one_keeps_no_other(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            wrong = [item("price >="), {"schema": "stock", "host": "h1"}, item(host="h99"), 7, item("false"), item(x=1)]
            found = await batch(api, [item(), *wrong, item("price < 5")])
            assert statuses(found) == [201, 400, 400, 400, 400, 400, 400, 201]
            assert [each["error"]["field"] for each in found[1:-1]] == ["filter", "body", "host", "body", "filter", "x"]
            for data, result in zip(wrong, found[1:-1], strict=True):
                if isinstance(data, dict):
                    alone = await api("POST", "/v1/subscriptions", 400, json=data)
                    assert alone.json()["error"] == result["error"]
            assert len((await api.get("/v1/subscriptions"))["items"]) == 2

    run(main)


def test_rights_and_limits_hold_for_each_item(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            anna = await api.principal("anna", read={"stock": "price >= 50"}, publish={}, subscriptions=3, boxes=4)
            found = await batch(anna, [item("price > 60"), item("price > 40"), item("price > 70"), item("price > 80")])
            assert statuses(found) == [201, 403, 201, 201]
            assert found[1]["error"]["allowed"] == "price >= 50"
            beyond = await batch(anna, [item("price > 90"), item("price > 91")])
            assert [each["error"]["code"] for each in beyond] == ["limit_reached"] * 2
            assert statuses(await batch(anna, [item("price > 60")], "advertisements")) == [403]

    run(main)


def test_of_the_items_beyond_a_limit_the_last_are_refused(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            anna = await api.principal("anna", read={"stock": "true"}, subscriptions=SLICE_ITEMS + 10)
            found = await batch(anna, [item(f"price > {each}") for each in range(SLICE_ITEMS + 30)])
            assert statuses(found) == [201] * (SLICE_ITEMS + 10) + [403] * 20

    run(main)


def test_a_batch_that_is_sent_again_with_its_keys_changes_nothing_and_is_answered_as_before(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            items = [item("price < 5", key="a"), item("price < 6", key="b"), item("price < 5", key="a")]
            first = await batch(api, items)
            assert first[0] == first[2]
            assert await batch(api, items) == first
            assert len((await api.get("/v1/subscriptions"))["items"]) == 2
            again = await api.subscribe("price < 6", key="b")
            assert again["id"] == first[1]["registration"]["id"]
            other = await batch(api, [item("price < 7", key="a"), item("price < 7", key="c")])
            assert [each.get("error", {}).get("code") for each in other] == ["key_conflict", None]

    run(main)


def test_what_a_batch_registers_under_a_lease_goes_with_the_lease(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            found = await batch(api, [item("price < 5", lease="mine"), item("price < 6", lease="mine"), item()])
            renewed = (await api("PUT", "/v1/leases/mine", 200)).json()
            assert renewed["registrations"] == [each["registration"]["id"] for each in found[:2]]
            assert [each["registration"]["lease"] for each in found] == ["mine", "mine", None]

    run(main)


def test_many_are_withdrawn_at_once_and_only_what_the_caller_may_withdraw(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            anna = await api.principal("anna", read={"stock": "true"}, publish={"stock": "true"})
            others = (await api.subscribe())["id"]
            publisher = (await anna.advertise())["id"]
            mine = [each["registration"]["id"] for each in await batch(anna, [item()] * 3)]
            found = await withdrawn(anna, [mine[0], others, publisher, mine[0], "s999", mine[1]])
            assert statuses(found) == [204, 404, 404, 404, 404, 204]
            assert {each["id"] for each in (await api.get("/v1/subscriptions"))["items"]} == {others, mine[2]}
            assert statuses(await withdrawn(anna, [publisher], "advertisements")) == [204]
            assert statuses(await withdrawn(api, [mine[2]])) == [204]

    run(main)


def test_a_batch_has_a_thousand_items_at_most_and_a_body_of_the_usual_size(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            for items in ([], [item()] * 1001, "x"):
                await api.error("POST", "/v1/subscriptions:batch", 400, "bad_request", json={"items": items})
            for ids in ([], ["s1"] * 1001, [1]):
                await api.error("POST", "/v1/subscriptions:withdraw", 400, "bad_request", json={"ids": ids})
            large = json.dumps({"items": [item("true", key=f"{each:0100}") for each in range(1000)]}) + " " * 2**20
            headers = {"Content-Type": "application/json"}
            await api.error("POST", "/v1/subscriptions:batch", 413, "too_large", content=large, headers=headers)
            assert (await api.get("/v1/subscriptions"))["items"] == []

    run(main)


def test_the_items_of_a_batch_count_against_the_rate_of_the_principal(tmp_path):
    async def main():
        async with world(tmp_path, settings=ServiceSettings(requests_per_s=20, anonymous_per_s=1e6)) as api:
            buckets = api.app.state.service.buckets
            now = buckets._clock() + 100.0
            buckets._clock = lambda: now
            assert len(await batch(api, [item()] * 20)) == 20  # 1 for the request and 10 for the items, of 20
            error = await api.error("POST", "/v1/subscriptions:batch", 429, "too_fast", json={"items": [item()] * 20})
            assert "40 items" in error["reason"]
            now += 1.0
            assert len(await batch(api, [item()] * 80)) == 80  # as many as of two seconds: one is owed
            now += 0.9
            await api.error("GET", "/v1/subscriptions", 429, "too_fast")
            now += 0.3
            await api.get("/v1/subscriptions")

    run(main)


def test_filters_that_take_long_share_one_budget(tmp_path):
    points = " or ".join(f"(price = {i} and volume = {2 * i})" for i in range(400))

    async def main():
        async with world(tmp_path) as api:
            slow, long = item(f"not ({points})"), item(points)
            assert statuses(await batch(api, [long, slow, long])) == [201, 400, 201]
            found = await batch(api, [item(), slow, slow, slow, slow, long, item("price < 5")])
            assert statuses(found) == [201, 400, 400, 400, 400, 400, 201]
            assert {each["error"]["code"] for each in found[1:-1]} == {"filter_too_costly"}

    run(main)


def test_the_event_loop_goes_on_while_a_batch_is_carried_out(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            await api.advertise()
            await batch(api, [item(f"price > {each}") for each in range(SLICE_ITEMS)])  # warm
            items = [item(f"price > {each / 3} and volume < {each}", f"h{each % 8 + 1}") for each in range(1, 1001)]
            async with longest_stall() as stall:
                work = asyncio.create_task(batch(api, items))
                answered = 0
                while not work.done():
                    await api("GET", "/health/live", 204)
                    await asyncio.sleep(0.001)
                    answered += 1
                assert statuses(await work) == [201] * 1000
            assert answered > 20
            assert stall.busy_seconds < MAX_STALL_SECONDS
            ids = [each["registration"]["id"] for each in await work]
            async with longest_stall() as stall:
                assert statuses(await withdrawn(api, ids)) == [204] * 1000
            assert stall.busy_seconds < MAX_STALL_SECONDS

    run(main, 60)


REQUESTS = st.fixed_dictionaries(
    {
        "filter": st.sampled_from(["true", "price > 5", "price > 50", "volume < 3 or price < 2", "price >", "false"]),
        "host": st.sampled_from(["h1", "h2", "h5", "h99"]),
    },
    optional={"lease": st.sampled_from(["l", "m"])},
)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(REQUESTS, min_size=1, max_size=12), st.integers(0, 8), st.sampled_from(["subscriptions", "advertisements"])
)
def test_a_batch_leaves_the_same_state_as_its_items_one_by_one(tmp_path_factory, requests, limit, kind):
    async def state_after(together):
        async with world(tmp_path_factory.mktemp("world"), settings=UNLIMITED) as api:
            await api.advertise("price > 3")
            rights = {"read": {"stock": "price > 1"}, "publish": {"stock": "true"}}
            anna = await api.principal("anna", subscriptions=limit, **rights)
            items = [{"schema": "stock", "key": f"k{number}", **each} for number, each in enumerate(requests)]
            if together:
                results = [(each["status"], each.get("error")) for each in await batch(anna, items, kind)]
            else:
                answers = [await anna("POST", f"/v1/{kind}", json=each) for each in items]
                results = [(each.status_code, each.json().get("error")) for each in answers]
            state = api.app.state.service.state
            standing = [(e.principal, e.host, e.boxes, e.region, e.lease) for e in state.registrations.values()]
            tables = {switch: sorted(map(str, table)) for switch, table in state.router.tables.items()}
            return results, standing, tables

    assert run(lambda: state_after(True), 60) == run(lambda: state_after(False), 60)
