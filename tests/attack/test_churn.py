"""Memory after much churn: what comes and goes leaves nothing behind, however often.

A round is everything that a program does in its life. The short form looks for collections that grow with the rounds;
with PLEROMA_LONG=1 bytes are counted, over as many rounds as a week of a program every half a minute has.
"""

import asyncio
import gc
import os
import tracemalloc
from collections import deque
from functools import lru_cache
from types import FrameType, ModuleType

import pytest

from pleroma.service.http.limits import Buckets
from support.service.with_lake import collecting
from support.waiting import run

LONG = os.environ.get("PLEROMA_LONG") == "1"
WARM_ROUNDS, ROUNDS = 20, 40
LONG_WARM_ROUNDS, LONG_ROUNDS = 2_000, 18_000
MAX_BYTES_PER_ROUND = 300
COLLECTIONS = (dict, list, set, deque)
BOUNDED = (Buckets, type(lru_cache(lambda: None)))
"""What looks as if it grew until it has come to its bound."""


async def life(api, number):
    """A program that nobody has seen before comes, attaches, registers, reports, hands a sample over, and goes."""
    name, lease = f"p{number}", f"lease-{number}"
    made = await api.principal(name, "both", publish={"*": "true"}, read={"*": "true"})
    async with made.client:
        await made.post("/v1/hosts/h2/attachments", None)
        wanted = await made.subscribe(f"price < {number % 8 + 1}", "h2", lease=lease)
        offered = await made.advertise(f"volume > {number % 8}", "h1", lease=lease)
        await made("PUT", f"/v1/leases/{lease}", 200)
        counted = {wanted["id"]: {"delivered": 1}}
        batch = {"sender": f"s{number}", "number": number}
        await made.post("/v1/reports", {"subscriptions": counted, "published": {"stock": 1}, "batch": batch}, 204)
        await made.get("/v1/schemas/stock/plan")
        body = {"schema": "stock", "epoch": 1, "rate": 0.5, "ages": [0.0], "batch": batch}
        values = {"price": [1.0], "volume": [100], "ticker": ["A"], "market": [None]}
        await made.post("/v1/samples", body | {"columns": values}, 202)
        await made("DELETE", f"/v1/subscriptions/{wanted['id']}", 204)
        await made("DELETE", f"/v1/advertisements/{offered['id']}", 204)
    await api("DELETE", f"/v1/principals/{name}", 204)
    await api.app.state.service.leases.expire()


async def lives(api, numbers):
    for number in numbers:
        await life(api, number)
    gc.collect()


def collections(*roots):
    """Every collection that something leads to, by its identity: itself, and the types on the way there."""
    found, seen, waiting = {}, set(), [(each, "") for each in roots]
    while waiting:
        each, way = waiting.pop()
        if id(each) in seen or isinstance(each, (type, ModuleType, FrameType, *BOUNDED)):
            continue
        seen.add(id(each))
        if isinstance(each, COLLECTIONS):
            found[id(each)] = each, way
        waiting += [(inner, f"{way[-200:]}/{type(inner).__name__}") for inner in gc.get_referents(each)]
    return found


def test_no_collection_grows_with_the_programs_that_have_come_and_gone(tmp_path):
    async def main():
        async with collecting(tmp_path, max_waiting=10) as (api, *_):
            service = api.app.state.service
            service.leases.seconds = 0.0  # what nobody holds any more is forgotten at once
            service.samples.recent._max_events = 10
            await lives(api, range(WARM_ROUNDS))
            roots = api.app, asyncio.get_running_loop()
            sizes = {key: len(each) for key, (each, _) in collections(*roots).items()}
            await lives(api, range(WARM_ROUNDS, WARM_ROUNDS + ROUNDS))
            order = service.state.registrations._order  # is shortened when it is much longer than needed
            grown = {
                way: (sizes[key], len(each), str(list(each)[-1:]))
                for key, (each, way) in collections(*roots).items()
                if key in sizes and each is not order and len(each) >= sizes[key] + ROUNDS / 2
            }
            assert grown == {}

    run(main, 240)


@pytest.mark.skipif(not LONG, reason="takes many minutes: set PLEROMA_LONG=1")
def test_programs_that_come_and_go_leave_no_bytes_behind(tmp_path):
    async def main():
        async with collecting(tmp_path, max_waiting=10) as (api, *_):
            api.app.state.service.leases.seconds = 0.0
            tracemalloc.start()
            try:
                await lives(api, range(LONG_WARM_ROUNDS))
                before, first = tracemalloc.get_traced_memory()[0], tracemalloc.take_snapshot()
                await lives(api, range(LONG_WARM_ROUNDS, LONG_WARM_ROUNDS + LONG_ROUNDS))
                left = (tracemalloc.get_traced_memory()[0] - before) / LONG_ROUNDS
                most = "\n".join(map(str, tracemalloc.take_snapshot().compare_to(first, "lineno")[:12]))
            finally:
                tracemalloc.stop()
            print(f"{left:.0f} bytes a round\n{most}")
            assert left < MAX_BYTES_PER_ROUND, most

    run(main, 7_200)
