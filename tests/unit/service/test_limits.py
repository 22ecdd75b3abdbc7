"""How much one may ask: bytes, requests per second, and a disk that is full."""

import asyncio
import json

import pytest

from pleroma.errors import SetupError
from pleroma.service import ServiceSettings
from pleroma.service.http.limits import Buckets
from support.service.in_process import UNLIMITED, world
from support.waiting import run


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_a_bucket_lets_a_burst_through_and_then_its_rate():
    clock = Clock()
    buckets = Buckets(4, clock)
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0]
    assert buckets.take("a") == pytest.approx(0.25)
    assert buckets.take("b") == 0
    clock.now += 0.2
    assert buckets.take("a") == pytest.approx(0.05)
    clock.now += 0.05
    assert buckets.take("a") == 0
    assert buckets.take("a") == pytest.approx(0.25)
    clock.now += 3600
    assert [buckets.take("a") == 0 for _ in range(5)] == [True] * 4 + [False]


def test_what_a_request_takes_beyond_a_full_bucket_is_owed():
    clock = Clock()
    buckets = Buckets(4, clock)
    assert (buckets.take("a"), buckets.take_more("a", 11)) == (0, 0)
    assert buckets.take("a") == pytest.approx(9 / 4)
    clock.now += 9 / 4
    assert (buckets.take("a"), buckets.take_more("a", 1)) == (0, pytest.approx(1 / 4))


def test_a_slow_rate_still_lets_one_through():
    clock = Clock()
    buckets = Buckets(0.1, clock)
    assert buckets.take("a") == 0
    assert buckets.take("a") == pytest.approx(10)


def test_buckets_that_are_full_again_are_forgotten():
    clock = Clock()
    buckets = Buckets(2, clock)
    for i in range(15_000):
        buckets.take(f"p{i}")
        clock.now += 0.01
    assert len(buckets._levels) < 11_000


def test_settings_are_positive_numbers():
    for bad in ({"max_body_bytes": 0}, {"requests_per_s": -1}, {"requests_per_s": float("nan")}, {"max_streams": True}):
        with pytest.raises(SetupError, match="positive"):
            ServiceSettings(**bad)


def test_too_many_requests_are_told_when_to_come_again_and_others_are_served(tmp_path):
    async def main():
        async with world(tmp_path, settings=ServiceSettings(requests_per_s=20)) as api:
            ann = await api.principal("ann")
            answers = [await ann("GET", "/v1/hosts") for _ in range(60)]
            statuses = [answer.status_code for answer in answers]
            assert statuses[:20] == [200] * 20
            assert 429 in statuses
            refused = answers[statuses.index(429)]
            assert refused.json()["error"]["code"] == "too_fast"
            wait = int(refused.headers["retry-after"])
            assert 1 <= wait <= 2
            await api("GET", "/v1/hosts", 200)
            await asyncio.sleep(wait / 4)
            await ann("GET", "/v1/hosts", 200)

    run(main)


def test_guessing_tokens_is_slow_work(tmp_path):
    async def main():
        async with world(tmp_path, settings=ServiceSettings(anonymous_per_s=5)) as api:
            guesses = [await api.as_(f"guess{i}")("GET", "/v1/hosts") for i in range(20)]
            assert [answer.status_code for answer in guesses][:5] == [401] * 5
            assert guesses[-1].status_code == 429
            await api("GET", "/v1/hosts", 200)

    run(main)


def test_a_large_body_is_refused_whether_it_says_so_or_not(tmp_path):
    async def main():
        settings = ServiceSettings(max_body_bytes=1000, requests_per_s=1e6)
        async with world(tmp_path, settings=settings) as api:

            async def chunks(size, sent):
                for _ in range(0, size, 100):
                    sent.append(1)
                    yield b" " * 100

            body = json.dumps({"schema": "stock", "filter": "true", "host": "h1"}).encode()
            kind = {"Content-Type": "application/json"}
            for size, status in ((1000, 201), (1001, 413)):
                padded = body + b" " * (size - len(body))
                answer = await api("POST", "/v1/subscriptions", status, content=padded, headers=kind)
            assert answer.json()["error"]["code"] == "too_large"
            answer = await api("POST", "/v1/subscriptions", 413, content=chunks(1_000_000, []), headers=kind)
            assert answer.json()["error"]["code"] == "too_large"
            lying = {**kind, "Content-Length": "many"}
            await api("POST", "/v1/subscriptions", 413, content=body, headers=lying)

    run(main)


def test_a_full_disk_is_said_and_nothing_is_acknowledged(tmp_path):
    async def main():
        async with world(tmp_path, settings=UNLIMITED) as api:
            await api.subscribe("price > 1")
            file = api.app.state.service.controller._logged._commit._log._file
            with file.reading() as connection:
                (pages,) = connection.execute("PRAGMA page_count").fetchone()
                connection.execute(f"PRAGMA max_page_count = {pages}")
            acknowledged, refused = [], []
            for i in range(300):
                body = {"schema": "stock", "filter": f"price > {i} and ticker startswith '{'x' * 50}'", "host": "h1"}
                answer = await api("POST", "/v1/subscriptions", json=body)
                (acknowledged if answer.status_code == 201 else refused).append(answer.json())
                if len(refused) == 3:
                    break
            assert [each["error"]["code"] for each in refused] == ["disk_full"] * 3
            assert str(tmp_path) not in str(refused)
            listed = (await api.get("/v1/subscriptions?limit=1000"))["items"]
            assert len(listed) == 1 + len(acknowledged)
            await api.error("POST", "/v1/principals", 507, "disk_full", json={"name": "ann", "role": "both"})
            await api.get("/health")
            with file.reading() as connection:
                connection.execute("PRAGMA max_page_count = 1000000")
            await api.subscribe("price > 2")
            return (await api.get("/v1/subscriptions?limit=1000"))["items"]

    async def again():
        async with world(tmp_path) as api:
            return (await api.get("/v1/subscriptions?limit=1000"))["items"]

    before = run(main)
    assert run(again) == before
