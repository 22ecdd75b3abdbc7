"""Symbolic links in a lake, and logs that name files elsewhere: nothing outside of a lake is removed or read."""

import os
import time
from datetime import UTC, datetime, timedelta

import pyarrow.parquet as pq
import pytest

from pleroma.content.batch import EventBatch
from pleroma.errors import DamagedFile
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.maintenance import maintain
from pleroma.pipeline.lake.store import file_system
from pleroma.pipeline.lake.table_files import TableFile
from support.service.with_lake import COLUMNS, STOCK


@pytest.fixture
def lake(tmp_path):
    made = Lake.at(str(tmp_path / "lake"))
    now = datetime.now(UTC)
    made.land_schema(STOCK, now - timedelta(days=2))
    made.land_events(EventBatch.from_columns(STOCK, COLUMNS), [now] * 2, 1, 1.0)
    return made


@pytest.fixture
def outside(tmp_path):
    """A folder of somebody else, with old files."""
    folder = tmp_path / "outside"
    (folder / "deep").mkdir(parents=True)
    for path in (folder / "one.parquet", folder / "two.txt", folder / "deep" / "three.parquet"):
        path.write_bytes(b"precious")
        os.utime(path, (time.time() - 40 * 86_400,) * 2)
    return folder


@pytest.mark.parametrize("target", [".", "one.parquet"])
@pytest.mark.parametrize("place", ["", "hour=2026-01-01T00"])
def test_maintenance_removes_nothing_that_a_link_leads_to_and_names_the_link(tmp_path, lake, outside, target, place):
    table = tmp_path / "lake" / "events" / "stock" / place
    table.mkdir(exist_ok=True)
    (table / "link").symlink_to(outside / target)
    before = sorted(outside.rglob("*"))
    result = maintain(lake, 30, kept_hours=0)
    assert sorted(outside.rglob("*")) == before
    (failed,) = result.failed
    assert failed.table == "events/stock"
    assert "link is a symbolic link" in failed.reason
    assert len(lake.events("stock")) == 2
    (table / "link").unlink()
    assert maintain(lake, 30, kept_hours=0).failed == ()


def test_a_lake_may_be_reached_by_a_link_itself(tmp_path, lake):
    (tmp_path / "by-link").symlink_to(tmp_path / "lake")
    assert maintain(Lake.at(str(tmp_path / "by-link")), 30, kept_hours=0).failed == ()
    assert len(lake.events("stock")) == 2


def test_a_file_that_a_log_names_outside_of_the_table_is_not_read(lake, outside):
    table = lake.event_table("stock")
    stray = outside / "stray.parquet"
    pq.write_table(table.rows(), stray)
    system, root = file_system(table.url)
    for path in (
        f"../../../{outside.name}/stray.parquet",
        str(stray),
        f"file://{stray}",
        "hour=x/../../../stray.parquet",
    ):
        with pytest.raises(DamagedFile, match="outside of the table"):
            table.reader().rows(system, root, TableFile(path, stray.stat().st_size, 2, ()))
