"""Clients that register very much at once: in few requests, all or none, and again after the lease has expired."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager

import pytest

import pleroma
from pleroma.client import blocking
from pleroma.control import CreatePrincipal, CreateSchema, Expire
from pleroma.errors import ContentError, RequestRefused
from pleroma.routing import build
from pleroma.service import Deployment, ServiceSettings, running
from pleroma.service.http.tokens import digest
from support.strategies import STOCK
from support.waiting import run, until

TOKEN = "plr_the-token-of-the-tests"  # noqa: S105
MANY = 1_200


def quote(price):
    return STOCK.event(price=price, volume=0, ticker="X")


def standing(started):
    return [each for each in started.service.state.registrations.values() if each.kind == "subscription"]


def asked(started):
    """How many requests there were, by method and route."""
    counted = Counter()
    for metric in started.service.metrics.requests.collect():
        for sample in metric.samples:
            if sample.name.endswith("_total"):
                counted[f"{sample.labels['method']} {sample.labels['route']}"] += int(sample.value)
    return counted


@asynccontextmanager
async def service(folder, **limits):
    settings = ServiceSettings(requests_per_s=1e6, **limits)
    async with running(folder, build("line:3"), Deployment(port=0, settings=settings)) as started:
        await started.service.controller.submit(CreateSchema(STOCK))
        rights = {"stock": "price < 900"}, {"stock": "price < 900"}
        await started.service.controller.submit(CreatePrincipal("boss", "both", digest(TOKEN), *rights, MANY + 10))
        yield started


def filters(count=MANY):
    return [f"price < {1 + each % 800}" for each in range(count)]


def test_many_subscriptions_take_few_requests_and_get_their_events(tmp_path):
    async def main():
        async with service(tmp_path) as started, pleroma.connect(started.url, TOKEN, "h1") as client:
            made = await client.subscribe_many("stock", filters())
            assert [str(each.filter) for each in made] == filters()
            assert len({each.id for each in made}) == len(standing(started)) == MANY
            async with await client.advertise("stock", "price < 900") as publisher:
                publisher.publish(quote(799.5))
                assert (await made[799].receive()).event == quote(799.5)
                assert made[0].waiting == 0
            await asyncio.gather(*(each.close() for each in made))
            assert standing(started) == []
            requests = asked(started)
            assert requests["POST /v1/subscriptions:batch"] + requests["POST /v1/subscriptions"] <= 4
            assert requests["POST /v1/subscriptions:withdraw"] + requests["DELETE /v1/subscriptions/{id}"] <= 8

    run(main, 60)


def test_if_one_is_refused_none_stands(tmp_path):
    async def main():
        async with service(tmp_path) as started, pleroma.connect(started.url, TOKEN, "h1") as client:
            with pytest.raises(RequestRefused, match="boss may read only") as refused:
                await client.subscribe_many("stock", [*filters(50), "price < 950", *filters(50)])
            assert refused.value.status == 403
            assert standing(started) == []
            for wrong in ("price < 5", 7, ["price <"], [None]):
                with pytest.raises(ContentError):
                    await client.subscribe_many("stock", wrong)
            assert await client.subscribe_many("stock", []) == []

    run(main, 60)


def test_after_the_lease_has_expired_everything_is_registered_again_in_few_requests(tmp_path):
    async def main():
        async with service(tmp_path) as started, pleroma.connect(started.url, TOKEN, "h1") as client:
            made = await client.subscribe_many("stock", filters())
            before = {each.id for each in made}
            (principal, lease) = next(iter(started.service.state.registrations.by_lease))
            await started.service.controller.submit(Expire(lease, principal))
            started.service.leases._renewed_at.clear()
            client._connected_parts.registrations._lease.doubt()
            await until(lambda: len(standing(started)) == MANY and all(each.id for each in made), 30)
            assert not before & {each.id for each in made}
            assert not any(each.is_over for each in made)
            requests = asked(started)
            assert requests["POST /v1/subscriptions:batch"] + requests["POST /v1/subscriptions"] <= 8
            assert requests["GET /v1/subscriptions/{id}"] == 0

    run(main, 60)


def test_the_blocking_client_has_it_too(tmp_path):
    async def main():
        async with service(tmp_path) as started:

            def program():
                with blocking.connect(started.url, TOKEN, "h1") as client:
                    made = client.subscribe_many("stock", filters(20))
                    count = len(standing(started))
                    made[0].close()
                    return count, len(standing(started)), [str(each.id)[0] for each in made[1:]]

            assert await asyncio.to_thread(program) == (20, 19, ["s"] * 19)
            assert standing(started) == []

    run(main, 60)
