"""Spark on a lake in an object store: planner and tasks reach it, though Spark itself has no file system for it."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from pleroma.content.batch import EventBatch
from pleroma.pipeline.lake.lake import Lake
from support.object_store.server import BUCKET, SECRET, ObjectStore
from support.programs import environment
from support.strategies import STOCK

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.fixture
def store(monkeypatch):
    with ObjectStore() as made:
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        yield made


def test_a_lake_in_an_object_store_is_read_and_tuned_on(store):
    lake = Lake.at(store.url(f"tests/{uuid4()}"))
    lake.land_schema(STOCK)
    for n in range(0, 10, 5):
        events = [STOCK.event(price=float(n + i), volume=n + i, ticker="IBM", market="nyse") for i in range(5)]
        lake.land_events(EventBatch.from_events(STOCK, events), [NOON] * 5, 1, 1.0)
    done = subprocess.run(
        [sys.executable, "-m", "support.spark_on_a_store", lake.url],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    every = list(range(10))
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "format": every,
        "filtered": [6, 7, 8, 9],
        "read": every,
        "stream": every,
        "tuned": 10,
    }
    assert SECRET not in done.stdout + done.stderr
    keys = [each["Key"] for each in store.client.list_objects_v2(Bucket=BUCKET)["Contents"]]
    assert not [key for key in keys if "scratch" in key], "the file of boxes is gone"
