"""While large commands are folded in another thread, all requests are answered rightly: none reads half a change."""

import asyncio
import os
import random
import threading
import time

import pytest

from pleroma.control import PlanChangeTiming
from pleroma.control.state.registrations import Registrations
from pleroma.index import GridIndex
from support.service.in_process import world

LONG = os.environ.get("PLEROMA_LONG") == "1"
SUBSCRIPTIONS = 500
CHANGES = 20
GUESTS = 30
"""Subscriptions of a principal that goes."""
QUICK = PlanChangeTiming(in_flight_seconds=0.01, unleased_seconds=0.01, leased_seconds=0.1)
READ = (
    "/health",
    "/metrics",
    "/v1/subscriptions?limit=1000",
    "/v1/advertisements",
    "/v1/schemas/stock/plan",
    "/v1/schemas/stock/plans",
    "/v1/schemas/stock/plan/replanning",
    "/v1/statistics",
    "/v1/network",
    "/v1/network/trees",
    "/v1/switches",
    "/v1/switches/R1/flows",
    "/v1/schemas/stock/plan/tree",
    '/v1/trace?schema=stock&host=h1&event={"price":50,"volume":7,"ticker":"A"}',
    "/v1/hosts",
    "/v1/principals",
)


def test_a_principal_that_goes_is_seen_with_all_its_subscriptions_or_with_none(tmp_path, monkeypatch):
    """Each removal takes a while here, and the loop has its turn in between. A probe does not wait for the last one."""
    removing, remove = threading.Event(), Registrations.remove

    def slowly(self, registered):
        assert threading.current_thread() is not threading.main_thread()
        removing.set()
        time.sleep(0.01)
        remove(self, registered)

    async def main():
        async with world(tmp_path) as api:
            await api.advertise(host="h1")
            guest = await api.principal("guest", read={"stock": "true"})
            for number in range(GUESTS):
                await guest.subscribe(f"price > {number}", host="h2")
            monkeypatch.setattr(Registrations, "remove", slowly)
            going = asyncio.create_task(api("DELETE", "/v1/principals/guest", 204))
            while not removing.is_set():
                await asyncio.sleep(0.001)
            probe = asyncio.gather(api.get("/health"), api("GET", "/health/ready", 204))
            listed = [asyncio.create_task(api.get("/v1/subscriptions?principal=guest")) for _ in range(5)]
            await probe
            assert not going.done()
            sizes = {len(answer["items"]) for answer in await asyncio.gather(*listed)}
            assert sizes <= {0, GUESTS}
            await going

    asyncio.run(main())


@pytest.mark.parametrize("waits_until", ["settled", "confirmed"])
def test_who_waits_for_a_large_command_does_not_keep_the_loop_and_then_finds_it_done(
    tmp_path, monkeypatch, waits_until
):
    remove, removed, ticks = Registrations.remove, threading.Event(), 0

    def slowly(self, registered):
        time.sleep(0.02)
        remove(self, registered)
        removed.set()

    async def ticking():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.001)

    async def main():
        async with world(tmp_path) as api:
            controller = api.app.state.service.controller
            guest = await api.principal("guest", read={"stock": "true"})
            for number in range(GUESTS):
                await guest.subscribe(f"price > {number}", host="h2")
            monkeypatch.setattr(Registrations, "remove", slowly)
            going = asyncio.create_task(api("DELETE", "/v1/principals/guest", 204))
            while not removed.is_set():
                await asyncio.sleep(0.001)
            tick = asyncio.create_task(ticking())
            await getattr(controller, waits_until)()
            tick.cancel()
            before = time.perf_counter()
            assert len(controller.state.registrations) == 0
            assert time.perf_counter() - before < 0.2
            assert ticks > GUESTS
            await going

    asyncio.run(main())


@pytest.mark.skipif(not LONG, reason="takes a minute; PLEROMA_LONG=1 runs it")
def test_requests_of_all_kinds_are_answered_rightly_while_plans_change_and_principals_go(tmp_path):
    async def main():
        chance = random.Random(7)
        async with world(tmp_path, timing=QUICK) as api:
            controller = api.app.state.service.controller
            schema = controller.state.schemas["stock"].schema
            await api.advertise(host="h1")
            for number in range(SUBSCRIPTIONS):
                low = chance.uniform(0, 900)
                text = f"price between {low} and {low + 20}"
                await api.subscribe(text, host=f"h{2 + number % 7}")
            going, answered = True, dict.fromkeys(READ, 0)

            async def reader(path):
                while going:
                    answer = await api("GET", path)
                    assert answer.status_code == 200, (path, answer.text)
                    answered[path] += 1
                    await asyncio.sleep(0.02)

            async def registrar(number):
                while going:
                    made = await api.subscribe(f"volume <= {number + 1}", host="h2")
                    assert (await api.get(f"/v1/subscriptions/{made['id']}"))["filter"] == f"volume <= {number + 1}"
                    await api("DELETE", f"/v1/subscriptions/{made['id']}", 204)

            tasks = [asyncio.create_task(reader(path)) for path in READ]
            tasks += [asyncio.create_task(registrar(number)) for number in range(3)]
            for number in range(CHANGES):
                index = GridIndex.regular(schema, (8, 20, 14)[number % 3])
                method = ("lightweight", "versioning")[number % 2]
                new = {"index": index.to_json(), "method": method}
                assert (await api("PUT", "/v1/schemas/stock/plan", json=new)).status_code in (200, 202)
                await controller.plan_changes.finished()
                guest = await api.principal(f"guest{number}", read={"stock": "true"})
                for _ in range(GUESTS):
                    await guest.subscribe("price < 5", host="h3")
                await api("DELETE", f"/v1/principals/guest{number}", 204)
            going = False
            await asyncio.gather(*tasks)
            assert controller.state.schemas["stock"].epoch == 1 + CHANGES
            assert min(answered.values()) > 0
            standing = {each.id for each in controller.state.registrations.values()}
            assert len(standing) == SUBSCRIPTIONS + 1

    asyncio.run(main())
