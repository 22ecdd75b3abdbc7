"""Processes land the same and other things, merge, settle and read at once, and are killed at any moment.

At the end everything is there once, and a stream has seen everything once.
"""

import os
import random
import subprocess
import sys
import time
from collections import Counter

import pytest

from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.lake_table import LANDING
from pleroma.pipeline.lake.settling import settle
from support.lake_storm import BEGIN, STEP, seen, subscribed
from support.lake_writer import EVENTS_PER_BATCH, SHARED_SENDER
from support.programs import environment
from support.strategies import STOCK

LONG = os.environ.get("PLEROMA_LONG") == "1"
BATCHES, KILLS = (150, 60) if LONG else (10, 5)
SENDERS = ("ann", "ben")
GIVEN_UP_SECONDS = 300.0


class Storm:
    """The processes by their arguments: whoever is killed is begun again."""

    def __init__(self, url, said, works):
        self._url, self._said = url, said
        self.running = {tuple(each): self._begun(each) for each in works}

    def _begun(self, work):
        what, *more = work
        command = [sys.executable, "-m", "support.lake_storm", what, self._url, *more]
        with self._said.open("a") as said:
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True, env=environment())

    def kill(self, work):
        process = self.running[work]
        process.kill()
        process.communicate()

    def kill_again(self, work, seconds):
        """Kill some time after it has begun, and begin it again."""
        assert self.running[work].stdout.readline() == "begun\n"
        time.sleep(seconds)
        self.kill(work)
        self.running[work] = self._begun(work)

    def landing(self):
        return [process for (what, *_), process in self.running.items() if what == "land"]


@pytest.fixture
def storm(tmp_path):
    Lake.at(str(tmp_path / "lake")).land_schema(STOCK, BEGIN)
    works = [("land", name, str(BATCHES)) for name in SENDERS]
    works += [("tidy",), ("settle",), ("stream", str(tmp_path / "seen"))]
    made = Storm(str(tmp_path / "lake"), tmp_path / "said", works)
    yield made
    for process in made.running.values():
        process.kill()
        process.wait()
        process.stdout.close()


def test_whoever_is_killed_at_whatever_moment_everything_is_there_once(tmp_path, storm):
    chance = random.Random(time.time_ns() if LONG else 5)
    works = list(storm.running)
    for number in range(KILLS):
        storm.kill_again(works[number % len(works)], chance.uniform(0, 1.0))
    for process in storm.landing():
        assert process.wait(GIVEN_UP_SECONDS) == 0
    lake = Lake.at(str(tmp_path / "lake"))
    table, end = lake.event_table("stock"), time.monotonic() + GIVEN_UP_SECONDS
    while max((come for come, _ in seen(tmp_path / "seen")), default=0) < table.landed(LANDING):
        assert time.monotonic() < end
        time.sleep(0.05)
    for work in works:
        storm.kill(work)
    assert (tmp_path / "said").read_text().split() == []
    _check_rows(lake)
    steps = list(seen(tmp_path / "seen"))
    assert Counter(each for _, ids in steps for each in ids) == Counter(table.rows(names=["id"])["id"].to_pylist())
    _check_subscriptions(lake)
    assert lake.refused() == []


def _check_rows(lake):
    table, senders = lake.event_table("stock"), (SHARED_SENDER, *SENDERS)
    rows = table.rows().to_pylist()
    landed = Counter((row["ticker"], row["volume"]) for row in rows)
    assert landed == Counter((name, n) for name in senders for n in range(BATCHES * EVENTS_PER_BATCH))
    assert len({row["id"] for row in rows}) == len(rows)
    assert {row["landing"] for row in rows} == set(range(1, table.landed(LANDING) + 1))
    reported = Counter((row["subscription"], row["delivered"]) for row in lake.table("reports").rows().to_pylist())
    assert reported == Counter((name, n) for name in senders for n in range(BATCHES))


def _check_subscriptions(lake):
    """What was in force at each position of the log, before and after what is left is settled."""
    entries = lake.subscription_history("stock").entries
    for number in range(BATCHES):
        for moment in (BEGIN + number * STEP, BEGIN + (number + 1) * STEP - STEP / 1000):
            found = {(row.id, row.host) for row in lake.subscriptions("stock", moment)}
            assert found == {(name, host) for name, _, host, _ in subscribed(number)}
    settle(lake, "subscriptions", "stock")
    settle(lake, "subscriptions", "stock")
    assert lake.subscription_history("stock").entries == entries
    assert len(lake.table("subscriptions").rows()) == len(entries)
