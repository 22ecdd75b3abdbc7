"""Advertisements and subscriptions over HTTP."""

import asyncio

import pytest

from pleroma.content import Filter
from support.service.in_process import world
from support.waiting import run


def test_a_subscription_is_made_read_listed_and_withdrawn(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            await api.advertise()
            state = api.app.state.service.state
            entry = state.schemas["stock"]
            wanted = Filter.parse(entry.schema, "price >= 50 and price < 60")
            cover = entry.index.cover(wanted, max_members=entry.members)
            made = await api.subscribe("price >= 50 and price < 60", "h3")
            assert made == {
                "id": "s5",
                "schema": "stock",
                "host": "h3",
                "principal": "admin",
                "filter": "price >= 50 and price < 60",
                "members": len(cover),
                "epoch": 1,
                "lease": None,
                "event_key": None,
                "share": None,
            }
            assert await api.get("/v1/subscriptions/s5") == made
            del made["share"], made["event_key"]
            assert await api.get("/v1/subscriptions") == {"items": [made], "next": None}
            assert (await api.get("/v1/switches/R8/flows"))["items"]
            await api("DELETE", "/v1/subscriptions/s5", 204)
            await api.error("GET", "/v1/subscriptions/s5", 404, "not_found")
            await api.error("DELETE", "/v1/subscriptions/s5", 404, "not_found")
            assert await api.get("/v1/subscriptions") == {"items": [], "next": None}
            assert (await api.get("/v1/switches/R8/flows"))["items"] == []

    run(main)


def test_an_advertisement_has_a_publisher_number(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            made = await api.advertise("volume < 10")
            assert made["id"] == f"a{made['publisher']}"
            assert await api.get(f"/v1/advertisements/{made['id']}") == made
            del made["event_key"]
            assert (await api.get("/v1/advertisements"))["items"] == [made]
            await api.error("GET", f"/v1/subscriptions/{made['id']}", 404, "not_found")
            await api.error("DELETE", f"/v1/subscriptions/{made['id']}", 404, "not_found")
            await api("DELETE", f"/v1/advertisements/{made['id']}", 204)

    run(main)


def test_text_and_boxes_say_the_same(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            text = await api.subscribe("price >= 50 and ticker == 'AAPL' or volume < 3")
            boxes = [{"price": {">=": 50}, "ticker": {"==": "AAPL"}}, {"volume": {"<": 3}}]
            same = await api.post("/v1/subscriptions", {"schema": "stock", "boxes": boxes, "host": "h2"})
            assert (same["filter"], same["members"]) == (text["filter"], text["members"])

    run(main)


MISTAKES = [
    ({"schema": "stok"}, "unknown_name", "schema", "did you mean 'stock'?"),
    ({"host": "h99"}, "unknown_name", "host", "unknown host 'h99'"),
    ({"filter": "price >="}, "filter_syntax", "filter", "unexpected the end"),
    ({"filter": "prise > 1"}, "unknown_name", "filter", "did you mean 'price'?"),
    ({"filter": "false"}, "content_error", "filter", "no event matches"),
    ({"filter": "price > 'x'"}, "domain_error", "price", ""),
    ({"filter": None}, "bad_request", "body", "give one of filter and boxes"),
    ({"boxes": []}, "bad_request", "body", "give one of filter and boxes"),
    ({"filter": None, "boxes": [{"price": {"~": 1}}]}, None, "price", ""),
    ({"filter": 5}, "bad_request", "filter", "valid string"),
    ({"colour": "red"}, "bad_request", "colour", "not permitted"),
    ({"key": ""}, "bad_request", "key", "at least 1"),
    ({"key": "k" * 101}, "bad_request", "key", "at most 100"),
    ({"filter": "x" * 70_000}, "bad_request", "filter", "at most 65536"),
]


@pytest.mark.parametrize("kind", ["advertisements", "subscriptions"])
def test_a_bad_registration_is_refused_with_the_field_and_changes_nothing(tmp_path, kind):
    async def main():
        async with world(tmp_path) as api:
            before = await api.get("/health")
            for change, code, field, reason in MISTAKES:
                body = {"schema": "stock", "filter": "true", "host": "h1"} | change
                error = (await api("POST", f"/v1/{kind}", 400, json=body)).json()["error"]
                assert code in (None, error["code"])
                assert error["field"] == field
                assert reason in error["reason"]
            assert await api.get("/health") == before

    run(main)


def test_an_error_in_a_filter_says_where(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            body = {"schema": "stock", "filter": "price > 1 and prise < 2", "host": "h1"}
            assert (await api.error("POST", "/v1/subscriptions", 400, "unknown_name", json=body))["position"] == 15

    run(main)


def test_a_filter_that_takes_long_to_read_does_not_hold_up_others(tmp_path):
    points = " or ".join(f"(price = {i} and volume = {2 * i})" for i in range(400))

    async def main():
        async with world(tmp_path) as api:
            body = {"schema": "stock", "filter": f"not ({points})", "host": "h1"}
            slow = asyncio.create_task(api.error("POST", "/v1/subscriptions", 400, "filter_too_costly", json=body))
            served = 0
            while not slow.done():
                await api.get("/health")
                await asyncio.sleep(0.01)
                served += 1
            assert "more work than is allowed" in (await slow)["reason"]
            assert served > 5

    run(main)


def test_the_same_key_gives_the_same_answer_and_nothing_twice(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            body = {"schema": "stock", "filter": "price > 1", "host": "h1", "key": "one"}
            first = await api.post("/v1/subscriptions", body)
            position = (await api.get("/health"))["position"]
            assert await api.post("/v1/subscriptions", body) == first
            assert (await api.get("/health"))["position"] == position
            other = body | {"filter": "price > 2"}
            error = await api.error("POST", "/v1/subscriptions", 409, "key_conflict", json=other)
            assert error["field"] == "key"
            await api.error("POST", "/v1/advertisements", 409, "key_conflict", json=body)
            assert len((await api.get("/v1/subscriptions"))["items"]) == 1
        async with world(tmp_path) as api:  # after a restart
            assert await api.post("/v1/subscriptions", body) == first

    run(main)


def test_principals_do_not_share_keys(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            body = {"schema": "stock", "filter": "price > 1", "host": "h1", "key": "one"}
            mine = await api.post("/v1/subscriptions", body)
            ann = await api.principal("ann", read={"*": "true"})
            hers = await ann.post("/v1/subscriptions", body | {"filter": "price > 2"})
            assert mine["id"] != hers["id"]

    run(main)


def test_lists_come_in_pages_and_can_be_narrowed(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            ann = await api.principal("ann", read={"*": "true"})
            made = [await (ann if i % 3 == 0 else api).subscribe(f"price > {i}") for i in range(10)]
            await api.advertise()
            ids = [each["id"] for each in made]

            async def walk(query):
                found, after = [], None
                while True:
                    page = await api.get("/v1/subscriptions", params=query | ({"after": after} if after else {}))
                    assert len(page["items"]) <= query["limit"]
                    found += [each["id"] for each in page["items"]]
                    assert len(found) <= len(ids), "it goes round in circles"
                    after = page["next"]
                    if after is None:
                        return found

            for limit in (1, 3, 9, 10, 11):
                assert await walk({"limit": limit}) == ids
            assert await walk({"limit": 2, "principal": "ann"}) == ids[::3]
            assert await walk({"limit": 2, "schema": "stock"}) == ids
            assert await walk({"limit": 2, "schema": "other"}) == []
            first = await api.get("/v1/subscriptions?limit=4")
            await api("DELETE", f"/v1/subscriptions/{first['next']}", 204)  # a page can begin behind one that is gone
            rest = await api.get(f"/v1/subscriptions?after={first['next']}")
            assert [each["id"] for each in rest["items"]] == ids[4:]
            for bad in ("limit=0", "limit=1001", "limit=x", "color=red"):
                error = await api.error("GET", f"/v1/subscriptions?{bad}", 400, "bad_request")
                assert error["field"] == bad.split("=")[0]

    run(main)


def test_what_was_registered_is_there_after_a_restart_with_the_same_rules(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            await api.advertise()
            await api.subscribe("price > 7")
            before = [await api.get(path) for path in ("/v1/subscriptions", "/v1/switches/R7/flows")]
        async with world(tmp_path) as api:
            assert [await api.get(path) for path in ("/v1/subscriptions", "/v1/switches/R7/flows")] == before
            assert before[1]["items"]

    run(main)
