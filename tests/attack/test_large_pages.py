"""Large filters that are listed: pages end by bytes too, others go on meanwhile, and a principal has so many boxes.

To list 200 filters of a thousand boxes kept the event loop for 12 s, and 24 for more than one.
"""

import asyncio
import json
import os

from pleroma.control import Register
from pleroma.service import ServiceSettings
from pleroma.service.http.paging import MAX_PAGE_BYTES
from support.service.in_process import ADMIN, world
from support.stalls import MAX_BUSY_SECONDS, longest_stall
from support.waiting import run

LONG = os.environ.get("PLEROMA_LONG") == "1"
LARGE = 200 if LONG else 24


def large(number, boxes=1000):
    """A filter of many boxes, as JSON."""
    return [
        {"price": {">=": i, "<": i + 0.5}, "volume": {"between": [i % 700, i % 700 + 10 + number]}}
        for i in range(boxes)
    ]


async def subscribed(api, count):
    for number in range(count):
        body = {"schema": "stock", "boxes": large(number), "host": "h1"}
        await api("POST", "/v1/subscriptions", 201, json=body)


async def listed(api, path):
    """All items in pages that are as large as they may be, and the sizes of the pages in bytes."""
    items, sizes, after = [], [], ""
    while after is not None:
        answer = await api.client.get(path, params={"limit": 1000} | ({"after": after} if after else {}))
        found = answer.json()
        assert found["items"] or found["next"] is None
        items += found["items"]
        sizes.append(len(answer.content))
        after = found["next"]
    return items, sizes


def test_large_filters_are_listed_in_pages_that_end_by_bytes_and_others_go_on(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            await subscribed(api, LARGE)
            async with longest_stall() as stall:
                items, sizes = await listed(api, "/v1/subscriptions")
            largest = max(len(json.dumps(each)) for each in items)
            assert len({each["id"] for each in items}) == len(items) == LARGE
            assert len(sizes) > 1
            assert max(sizes) < MAX_PAGE_BYTES + largest + 1000
            assert stall.busy_seconds < MAX_BUSY_SECONDS
            return items

    before = run(main)

    async def again():
        async with world(tmp_path) as api:  # the texts are made anew
            async with longest_stall() as stall:
                items, _ = await listed(api, "/v1/subscriptions")
            assert items == before
            assert stall.busy_seconds < MAX_BUSY_SECONDS

    run(again)


def test_a_page_of_small_items_is_as_long_as_asked_for_and_misses_nothing_that_stays(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            ann = await api.principal("ann", read={"*": "true"})
            made = [(await who.subscribe(f"price > {i}"))["id"] for i in range(30) for who in (api, ann)]
            page = await api.get("/v1/subscriptions?limit=7")
            assert [each["id"] for each in page["items"]] == made[:7]
            await api("DELETE", f"/v1/subscriptions/{page['next']}", 204)
            rest = await api.get(f"/v1/subscriptions?limit=1000&after={page['next']}")
            assert [each["id"] for each in rest["items"]] == made[7:]
            assert rest["next"] is None
            own = await ann.get(f"/v1/subscriptions?limit=1000&after={made[20]}")
            assert [each["id"] for each in own["items"]] == made[21::2]
            assert (await ann.get("/v1/subscriptions?principal=admin"))["items"] == []
            asked = await api.get("/v1/subscriptions?limit=1000&principal=ann")
            assert [each["id"] for each in asked["items"]] == made[1::2]

    run(main)


def test_registrations_come_and_go_while_a_page_is_made(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            made = [(await api.subscribe(f"price > {i}"))["id"] for i in range(200)]
            reading = asyncio.create_task(api.get("/v1/subscriptions?limit=1000"))
            changes = [api("DELETE", f"/v1/subscriptions/{each}", 204) for each in made[::2]]
            await asyncio.gather(*changes, *(api.subscribe("true") for _ in range(20)))
            shown = [each["id"] for each in (await reading)["items"]]
            assert set(made[1::2]) <= set(shown)
            assert shown == sorted(shown, key=lambda each: int(each[1:]))

    run(main)


def test_a_principal_has_as_many_boxes_as_it_may(tmp_path):
    async def main():
        async with world(tmp_path, settings=ServiceSettings(max_boxes=30)) as api:
            ann = await api.principal("ann", read={"*": "true"}, publish={"*": "true"})
            bob = await api.principal("bob", read={"*": "true"}, boxes=0)
            body = {"schema": "stock", "boxes": large(1, 20), "host": "h1"}
            made = await ann.post("/v1/subscriptions", body)
            error = await ann.error("POST", "/v1/subscriptions", 403, "limit_reached", json=body)
            assert (error["field"], error["value"]) == ("boxes", 20)
            error = await ann.error("POST", "/v1/advertisements", 403, "limit_reached", json=body)
            await ann("POST", "/v1/subscriptions", 201, json=body | {"boxes": large(2, 10)})
            await ann.error("POST", "/v1/subscriptions", 403, "limit_reached", json=body | {"boxes": [{}]})
            await bob.error("POST", "/v1/subscriptions", 403, "limit_reached", json=body | {"boxes": [{}]})
            await ann("DELETE", f"/v1/subscriptions/{made['id']}", 204)
            await ann("POST", "/v1/subscriptions", 201, json=body)
            assert [(await api.get(f"/v1/principals/{each}"))["boxes"] for each in ("ann", "bob", "admin")] == [
                30,
                0,
                None,
            ]

    run(main)

    async def again():
        async with world(tmp_path) as api:
            state = api.app.state.service.state
            assert state.registrations.boxes_of("ann") == 30
            refused = state.check(Register("subscription", "ann", "h1", "stock", [{}]))
            assert (refused.field, refused.value) == ("boxes", 1)

    run(again)


def test_an_answer_that_is_kept_for_a_repetition_does_not_hold_the_filter(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            body = {"schema": "stock", "boxes": large(3, 200), "host": "h1", "key": "k"}
            first = await api.post("/v1/subscriptions", body)
            assert await api.post("/v1/subscriptions", body) == first
            kept = api.app.state.service.controller._logged._fold.answers
            assert max(len(each.line) for each in kept.items()) < 500
            return first

    first = run(main)

    async def again():
        async with world(tmp_path) as api:
            body = {"schema": "stock", "boxes": large(3, 200), "host": "h1", "key": "k"}
            assert await api.as_(ADMIN).post("/v1/subscriptions", body) == first

    run(again)
