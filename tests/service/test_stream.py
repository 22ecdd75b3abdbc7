"""The live stream, over a real connection: what happens, new plans, and signs of life."""

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager

import httpx

from pleroma.routing import build
from pleroma.service import Deployment, ServiceSettings, running
from pleroma.service.http.examples import EXAMPLE_INDEX, EXAMPLE_SCHEMA
from support.service.in_process import Api
from support.waiting import run


@asynccontextmanager
async def served(folder, **settings):
    """A real server in this loop, and requests of the administrator to it."""
    settings = ServiceSettings(**{"requests_per_s": 1e6, **settings})
    async with running(folder, build("testbed"), Deployment(port=0, settings=settings)) as service:
        headers = {"Authorization": f"Bearer {service.token}"}
        async with AsyncExitStack() as stack:
            client = httpx.AsyncClient(base_url=service.url, headers=headers, timeout=20)
            api = Api(service.app, client=await stack.enter_async_context(client))

            def another(token):
                theirs = {"Authorization": f"Bearer {token}"}
                client = httpx.AsyncClient(base_url=service.url, headers=theirs, timeout=20)
                stack.push_async_callback(client.aclose)
                return Api(service.app, client=client)

            api.as_ = another
            await api.post("/v1/schemas", {"schema": EXAMPLE_SCHEMA})
            yield api


class Stream:
    """The blocks of an event stream: (event, data), or the text of a comment."""

    def __init__(self, answer):
        self.lines = answer.aiter_lines()

    async def next(self):
        block = []
        while line := await anext(self.lines):
            block.append(line)
        if block[0].startswith(":"):
            return block[0]
        (event, data) = block
        item = json.loads(data.removeprefix("data: "))
        assert event == f"event: {item['type']}"
        return item

    async def until(self, kind):
        while True:
            item = await asyncio.wait_for(self.next(), 10)
            if not isinstance(item, str) and item["type"] == kind:
                return item


@asynccontextmanager
async def stream(api, path="/v1/stream"):
    async with api.client.stream("GET", path) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        opened = Stream(answer)
        assert (await opened.next()).startswith(":")
        yield opened


def test_requests_flows_plans_and_counters_arrive_in_order(tmp_path):
    async def main():
        async with served(tmp_path) as api, stream(api) as heard:
            await api.advertise()
            made = await api.subscribe("price > 7")
            await api.client.put("/v1/schemas/stock/plan", json={"index": EXAMPLE_INDEX})
            await api.post("/v1/reports", {"subscriptions": {made["id"]: {"delivered": 2}}, "published": 1}, 204)
            first = await heard.next()
            assert (first["type"], first["command"]["kind"]) == ("request", "advertisement")
            second = await heard.next()
            assert second["command"]["kind"] == "subscription"
            assert second["value"]["id"] == made["id"]
            assert (await heard.next())["type"] == "flows"
            for epoch, phase in ((1, "prepared"), (2, "swapped"), (2, "done")):
                plan = await heard.until("plan")
                assert (plan["schema"], plan["epoch"], plan["phase"]) == ("stock", epoch, phase)
            counted = await heard.until("counters")
            assert counted["subscriptions"] == {
                made["id"]: {
                    "delivered": 2,
                    "wanted": 2,
                    "wasted": 0,
                    "duplicates": 0,
                    "dropped": 0,
                    "forged": 0,
                    "missed": 0,
                }
            }

    run(main)


def test_one_may_ask_for_some_types_only(tmp_path):
    async def main():
        async with served(tmp_path) as api, stream(api, "/v1/stream?types=plan,counters") as heard:
            await api.advertise()
            await api.client.put("/v1/schemas/stock/plan", json={"index": EXAMPLE_INDEX})
            assert (await heard.next())["type"] == "plan"
            await api.error("GET", "/v1/stream?types=plans", 400, "unknown_name")

    run(main)


def test_when_nothing_happens_a_comment_says_that_it_lives(tmp_path):
    async def main():
        async with served(tmp_path, heartbeat_seconds=0.1) as api, stream(api) as heard:
            begin = asyncio.get_running_loop().time()
            assert [await heard.next() for _ in range(3)] == [": alive"] * 3
            assert 0.25 < asyncio.get_running_loop().time() - begin < 3

    run(main)


def test_others_hear_of_plans_and_of_themselves_only(tmp_path):
    async def main():
        async with served(tmp_path) as api:
            ann = await api.principal("ann", read={"*": "true"})
            async with stream(ann) as heard:
                await api.advertise()
                await api.subscribe("price > 7")
                hers = await ann.subscribe("price > 8")
                await api.post("/v1/reports", {"published": 1}, 204)
                await ann.post("/v1/reports", {"published": 2}, 204)
                await api.post("/v1/principals", {"name": "bob", "role": "both"})
                await api.client.put("/v1/schemas/stock/plan", json={"index": EXAMPLE_INDEX})
                items = [await heard.next() for _ in range(3)]
                assert [each["type"] for each in items] == ["request", "counters", "plan"]
                assert items[0]["value"]["id"] == hers["id"]
                assert items[1]["published"] == 2
                assert "totals" not in items[1]

    run(main)


def test_a_principal_that_is_removed_hears_no_more(tmp_path):
    async def main():
        async with served(tmp_path, heartbeat_seconds=0.1) as api:
            ann = await api.principal("ann", read={"*": "true"})
            async with stream(ann) as heard:
                await api("DELETE", "/v1/principals/ann", 204)
                try:
                    while True:
                        await asyncio.wait_for(heard.next(), 10)
                except StopAsyncIteration:
                    pass

    run(main)


def test_a_stream_that_is_left_is_forgotten_and_there_are_not_too_many(tmp_path):
    async def main():
        async with served(tmp_path, max_streams=4, heartbeat_seconds=0.1) as api:
            feed = api.app.state.service.controller.feed
            async with stream(api), stream(api):
                assert len(feed) == 2
                answer = await api("GET", "/v1/stream", 429)
                assert answer.headers["retry-after"] == "5"
                assert answer.json()["error"]["reason"].startswith("admin has 2 streams")
                assert "pleroma_streams 2.0" in (await api("GET", "/metrics")).text
            for _ in range(100):
                if not feed:
                    break
                await asyncio.sleep(0.05)
            assert len(feed) == 0
            async with stream(api):
                pass

    run(main)


def test_no_stream_without_a_token(tmp_path):
    async def main():
        async with served(tmp_path) as api:
            await api.as_("wrong").error("GET", "/v1/stream", 401, "not_authenticated")

    run(main)
