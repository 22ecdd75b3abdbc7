"""A sample a second, landed once a minute, makes few files: hours become one file each, and what was merged goes."""

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from pleroma.content.batch import EventBatch
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.lake_table import KEPT_HOURS
from pleroma.pipeline.lake.landed import BatchId
from pleroma.pipeline.lake.maintenance import maintain
from support.strategies import STOCK

LONG = os.environ.get("PLEROMA_LONG") == "1"
NOON = datetime(2026, 10, 15, 12, tzinfo=UTC)
MINUTES, SECONDS = 60, 60
MONTH_DAYS = 30
MOST_FILES_A_DAY = 100


def trickled(lake, hours, kept_hours, hurried_hours=0):
    """So many hours of a sample a second, tidied up every hour.

    In the first `hurried_hours` the same samples are landed every half an hour and not every minute: once an hour was
    merged, and its files and its part of the log were removed, nothing tells how often it was landed.

    The library takes the age of files and of its log from the clock of this machine, which does not go as fast as the
    hours here. So nothing is removed by the hourly maintenance. Instead, everything that was merged is removed every
    `kept_hours`, and for the last time so long before the end: then the lake has at least the files that it would have
    if each had been removed `kept_hours` after it was merged.
    """
    lake.land_schema(STOCK, NOON)
    prices = np.random.default_rng(1).random(SECONDS)
    columns = {"price": prices, "volume": np.arange(SECONDS), "ticker": ["T"] * SECONDS}
    events = EventBatch.from_columns(STOCK, columns)
    for hour in range(hours):
        together = MINUTES // 2 if hour < hurried_hours else 1
        for minute in range(0, MINUTES, together):
            start = NOON.replace(tzinfo=None) + timedelta(hours=hour, minutes=minute)
            at = np.datetime64(start, "s") + np.arange(SECONDS * together).astype("timedelta64[s]")
            rows = np.tile(np.arange(SECONDS), together)
            batch = BatchId("publisher", hour * MINUTES + minute)
            lake.land_events(events[rows], at.astype("datetime64[us]"), 1, 1.0, batch)
        now = NOON + timedelta(hours=hour + 1)
        assert maintain(lake, 10**5, now).failed == ()
        if (hour + 1) % kept_hours == 0 and hour + 1 < hours:
            long_ago = time.time() - (KEPT_HOURS + 1) * 3600
            for path in Path(lake.url).rglob("_delta_log/*"):
                os.utime(path, (long_ago, long_ago))
            assert maintain(lake, 10**5, now, kept_hours=0).failed == ()


def all_files(lake):
    """Data, logs and checkpoints."""
    return [path for path in Path(lake.url).rglob("*") if path.is_file()]


def test_an_hour_becomes_a_file_and_only_the_last_hours_have_more(tmp_path):
    """What a month of this would be follows: a file for each hour, and what the last 12 hours have beside it."""
    lake, hours, kept_hours = Lake.at(str(tmp_path / "lake")), 4, 2
    trickled(lake, hours, kept_hours)
    events = lake.event_table("stock")
    assert [file.rows for file in events.files()] == [MINUTES * SECONDS] * hours
    assert len(lake.events("stock")) == hours * MINUTES * SECONDS
    beside = len(all_files(lake)) - hours
    assert beside >= 2 * kept_hours * MINUTES  # nothing of these hours has been removed
    files = MONTH_DAYS * 24 + beside * KEPT_HOURS / kept_hours
    assert files / MONTH_DAYS < MOST_FILES_A_DAY


@pytest.mark.skipif(not LONG, reason="takes minutes: set PLEROMA_LONG=1")
def test_a_month_of_a_sample_a_second_stays_under_a_hundred_files_a_day(tmp_path):
    lake = Lake.at(str(tmp_path / "lake"))
    trickled(lake, MONTH_DAYS * 24, KEPT_HOURS, hurried_hours=(MONTH_DAYS - 2) * 24)
    files = all_files(lake)
    print(
        f"{len(files)} files, {len(files) / MONTH_DAYS:.1f} a day, {sum(each.stat().st_size for each in files):,} bytes"
    )
    assert len(files) / MONTH_DAYS < MOST_FILES_A_DAY
    assert sum(file.rows for file in lake.event_table("stock").files()) == MONTH_DAYS * 24 * MINUTES * SECONDS
