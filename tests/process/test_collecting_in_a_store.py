"""`pleroma up --lake s3://…`: what clients publish lands in an object store, and a lost store stops nothing else."""

import asyncio
import json
import re
import signal
import subprocess
import sys

import httpx
import pytest

import pleroma
from pleroma.errors import LakeError
from pleroma.pipeline.lake.lake import Lake
from support.object_store.server import KEY_ID, SECRET, ObjectStore
from support.programs import environment
from support.strategies import STOCK
from support.waiting import run, until

REASONS = ("Connection reset by peer", "no answer")
"""What a lost connection is called, by the request that met it."""
NOTICED_SECONDS = 180.0
"""A store that is lost is noticed before, and so is one that is back: maintenance is tried again after a minute."""


@pytest.fixture
def store(monkeypatch):
    with ObjectStore() as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


class Up:
    """The command in a process of its own, until the end of a `with`."""

    def __init__(self, folder, lake):
        self._errors = folder / "up.err"
        options = ["--port", "0", "--topology", "line:3", "--lake", lake, "--sample", "1", "--land", "0.3", "--json"]
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pleroma.cli", "up", *options],
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment(),
            )
        self.said = self._process.stdout.readline()
        self.url = json.loads(self.said or "{}").get("url")
        self.token = (folder / ".pleroma" / "admin.token").read_text().strip() if self.url else None

    def log(self):
        return self._errors.read_text()

    def health(self):
        return httpx.get(f"{self.url}/health", timeout=10).json()

    def failures(self):
        """How often the lake could not be written."""
        metrics = httpx.get(f"{self.url}/metrics", timeout=10).text
        return float(re.search(r"^pleroma_lake_failures_total (\S+)", metrics, re.MULTILINE)[1])

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.communicate(timeout=60)
        finally:
            self._process.kill()
            self._process.wait()
        if error is not None:
            sys.stderr.write(self.log())


def quotes(count, first):
    return [
        STOCK.event(price=float(n % 100), volume=n, ticker="IBM", market="nyse") for n in range(first, first + count)
    ]


def volumes(lake):
    try:
        return sorted(event["volume"] for event in lake.events("stock"))
    except LakeError:
        return []


def test_events_land_in_a_store_and_flow_on_while_it_is_lost(store, tmp_path):
    lake = Lake.at(store.url("lake"))

    async def published(up):
        async with (
            pleroma.connect(up.url, up.token, "h1") as sending,
            pleroma.connect(up.url, up.token, "h2") as reading,
        ):
            subscription = await reading.subscribe("stock", "price >= 0")
            publisher = await sending.advertise("stock")
            publisher.publish_many(quotes(300, first=0))
            await until(lambda: subscription.info.delivered == 300, 30)
            await until_in_thread(lambda: volumes(lake) == list(range(300)))
            await until_in_thread(lambda: [row.id for row in lake.subscriptions("stock")] == [subscription.id])

            store.fault("cut_request")
            publisher.publish_many(quotes(300, first=300))
            await until(lambda: subscription.info.delivered == 600, 30)
            await until_in_thread(lambda: up.failures() >= 2)  # landing as well as, perhaps, maintenance
            assert up.health()["status"] == "degraded"
            (lost,) = (each["reason"] for each in up.health()["reasons"])
            publisher.publish_many(quotes(300, first=600))  # events flow while nothing can be landed
            await until(lambda: subscription.info.delivered == 900, 30)

            assert store.mend() > 0
            await until_in_thread(lambda: volumes(lake) == list(range(900)))
            await until_in_thread(lambda: up.health()["status"] == "ok")
            return lost

    with Up(tmp_path, lake.url) as up:
        httpx.post(
            f"{up.url}/v1/schemas", json={"schema": STOCK.to_json()}, headers={"Authorization": f"Bearer {up.token}"}
        ).raise_for_status()
        lost = run(lambda: published(up), seconds=3 * NOTICED_SECONDS)
    assert len(lost.splitlines()) == 1
    assert any(reason in lost for reason in REASONS)
    lines = [line for line in up.log().splitlines() if "the lake cannot be written" in line]
    losses = [line for line in lines if any(reason in line for reason in REASONS)]
    assert 1 <= len(losses) <= 2  # of landing, and perhaps of maintenance
    assert up.log().count("the lake can be written again") == up.log().count("the lake cannot be written")
    for text in (lost, up.log(), up.said):
        assert SECRET not in text
        assert KEY_ID not in text


def test_a_store_that_denies_is_one_line_at_the_start(store, tmp_path):
    store.fault("denied")
    with Up(tmp_path, store.url("lake")) as up:
        assert up.said == ""
    (line,) = [line for line in up.log().splitlines() if line and "the event loop stood still" not in line]
    assert "SignatureDoesNotMatch" in line
    assert SECRET not in line
    assert KEY_ID not in line


async def until_in_thread(condition):
    """Wait for something that blocks to be true."""
    async with asyncio.timeout(NOTICED_SECONDS):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.1)
