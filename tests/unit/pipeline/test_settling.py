"""Subscriptions that have ended become one row each, and nobody who asks can tell."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from pleroma.content import Filter, Integer, Schema
from pleroma.pipeline.lake import lake_table, settling
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.lake_query import LakeQuery
from pleroma.pipeline.lake.lake_table import LakeTable
from pleroma.pipeline.lake.maintenance import maintain
from pleroma.pipeline.lake.settling import settle
from pleroma.pipeline.lake.table_files import FileReader
from support.mortal_commits import Died, dying
from support.strategies import STOCK

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
LATER = NOON + 20 * HOUR
FOR_EVER = float("inf")
"""In days."""


@pytest.fixture
def lake(tmp_path):
    made = Lake.at(str(tmp_path / "lake"))
    made.land_schema(STOCK, NOON)
    return made


def subscribed(lake, at, *ids):
    lake.land_subscriptions("stock", at, [(each, "me", "h1", "[{}]") for each in ids])


def test_whenever_settling_dies_the_answers_are_the_same_and_no_row_is_doubled(tmp_path, monkeypatch):
    """Before and after each of its commits."""
    deaths = count = 0
    while deaths == count:
        lake = Lake.at(str(tmp_path / str(count)))
        lake.land_schema(STOCK, NOON)
        for number in range(4):
            subscribed(lake, NOON + number * HOUR, "always", f"s{number}")
        before = lake.subscription_history("stock").entries
        count += 1
        try:
            with dying(monkeypatch, count):
                settle(lake, "subscriptions", "stock")
        except Died:
            deaths += 1
        assert Lake.at(lake.url).subscription_history("stock").entries == before
        settle(Lake.at(lake.url), "subscriptions", "stock")
        again = Lake.at(lake.url)
        assert again.subscription_history("stock").entries == before
        states = [row["state"] for row in again.table("subscriptions").rows().to_pylist()]
        assert sorted(states) == ["begun"] * 2 + ["over"] * 3
        assert settle(again, "subscriptions", "stock") == 0
    assert deaths == 4


def test_maintenance_settles_advertisements_and_forgets_those_of_long_ago(lake):
    landed = lake.registrations("advertisements")
    for number in range(3):
        landed.land("stock", NOON + number * HOUR, [(each, "me", "h1", "[{}]") for each in ("always", f"a{number}")])
    before = landed.history("stock").entries
    assert maintain(lake, FOR_EVER, LATER).settled == 2
    assert landed.history("stock").entries == before
    assert sorted(row["state"] for row in landed.table.rows().to_pylist()) == ["begun"] * 2 + ["over"] * 2
    maintain(lake, 10, NOON + timedelta(days=30))
    assert [each.row.id for each in landed.history("stock").entries] == ["always", "a2"]


def test_a_subscription_that_ends_while_others_are_settled_is_not_lost(lake, monkeypatch):
    """Between both commits, and between reading and writing in each of them."""
    for number in range(3):
        subscribed(lake, NOON + number * HOUR, "always", f"s{number}")
    other = Lake.at(lake.url)
    hours = iter(range(3, 100))

    def change():
        number = next(hours)
        if number < 8:
            subscribed(other, NOON + number * HOUR, "always", f"s{number}")

    real = lake_table.write_deltalake

    def interrupted(*given, **more):
        with monkeypatch.context() as patched:
            patched.setattr(lake_table, "write_deltalake", real)
            change()
        real(*given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(lake_table, "write_deltalake", interrupted)
        patched.setattr(lake_table, "_PAUSE_SECONDS", 0.0)
        settle(lake, "subscriptions", "stock")
    last = next(hours) - 1
    assert last > 4
    settle(lake, "subscriptions", "stock")
    entries = lake.subscription_history("stock").entries
    assert sorted((row.id, since, until) for row, since, until in entries) == sorted(
        [
            ("always", NOON, None),
            *((f"s{n}", NOON + n * HOUR, NOON + (n + 1) * HOUR) for n in range(min(last, 7))),
            (f"s{min(last, 7)}", NOON + min(last, 7) * HOUR, None),
        ]
    )


def test_a_change_that_is_settled_between_two_files_is_seen_whole_or_not_at_all(lake, monkeypatch):
    """Whoever read `begun` before and `over` after it would see that the subscription ended, and not what followed."""
    subscribed(lake, NOON, "before")
    other, real = Lake.at(lake.url), FileReader.rows

    def interrupted(*given):
        monkeypatch.setattr(FileReader, "rows", real)
        subscribed(other, NOON + HOUR, "after")
        settle(other, "subscriptions", "stock")
        return real(*given)

    for read in (lambda: lake.subscriptions("stock", NOON + 2 * HOUR), lambda: lake.subscriptions("stock")):
        lake.schema("stock")
        monkeypatch.setattr(FileReader, "rows", interrupted)
        assert [each.id for each in read()] == ["before"]
        assert [each.id for each in read()] == ["after"]
        subscribed(lake, NOON + 3 * HOUR, "before")
        settle(lake, "subscriptions", "stock")


def test_a_query_of_subscriptions_is_planned_on_one_version(lake, monkeypatch):
    subscribed(lake, NOON, "s1")
    subscribed(lake, NOON + HOUR)
    other, real, listed = Lake.at(lake.url), LakeTable._actions, []

    def settled_after(table):
        found = real(table)
        listed.append(table.definition.path)
        if table.definition.path == "subscriptions":
            with monkeypatch.context() as patched:
                patched.setattr(LakeTable, "_actions", real)
                settle(other, "subscriptions", "stock")
        return found

    monkeypatch.setattr(LakeTable, "_actions", settled_after)
    readings = LakeQuery(lake.url, "stock", "subscriptions").readings()
    assert listed.count("subscriptions") == 1
    rows = [row for each in readings for batch in each.batches(["state"]) for row in batch["state"].to_pylist()]
    assert sorted(rows) == ["begun", "ended"]


def test_a_damaged_row_of_a_subscription_stops_settling_and_nothing_is_lost(lake):
    for number in range(3):
        subscribed(lake, NOON + number * HOUR, f"s{number}")
    table = lake.table("subscriptions")
    file = next(each for each in table.files() if dict(each.partition)["state"] == "ended")
    Path(table.url, file.path).write_bytes(b"PAR1")
    before = lake.subscription_history("stock").entries
    result = maintain(lake, FOR_EVER, LATER)
    assert [each.table for each in result.failed] == ["subscriptions"]
    assert file in table.files()
    assert lake.subscription_history("stock").entries == before
    assert [row.id for row, _, until in before if until is None] in (["s0", "s2"], ["s1", "s2"])


def test_only_the_schema_that_is_settled_changes(lake):
    other = Schema("it's", (Integer("x", False, 0, 9),))
    lake.land_schema(other, NOON)
    for number in range(3):
        subscribed(lake, NOON + number * HOUR, f"s{number}")
        lake.land_subscriptions("it's", NOON + number * HOUR, [(f"t{number}", "me", "h1", "[{}]")])
    assert settle(lake, "subscriptions", "it's") == 2
    found = pa.TableGroupBy(lake.table("subscriptions").rows(), ["schema", "state"]).aggregate([([], "count_all")])
    assert {tuple(row.values()) for row in found.to_pylist()} == {
        ("it's", "begun", 1),
        ("it's", "over", 2),
        ("stock", "begun", 3),
        ("stock", "ended", 2),
    }
    assert settling.settle(lake, "subscriptions", "stock") == 2


def test_what_is_in_force_now_is_known_without_opening_what_is_over(tmp_path, monkeypatch):
    lake = Lake.at(str(tmp_path / "lake"))
    lake.land_schema(STOCK)
    wanted = Filter.parse(STOCK, "price > 3")
    for hour in range(4):
        lake.land_subscriptions("stock", NOON + timedelta(hours=hour), [(f"s{hour}", "me", "h1", wanted)])
    maintain(lake, keep_days=1000)
    opened = []
    rows = FileReader.rows
    monkeypatch.setattr(FileReader, "rows", lambda self, *given: opened.append(given[2]) or rows(self, *given))
    assert [each.id for each in lake.subscriptions("stock")] == ["s3"]
    Lake.at(lake.url).land_subscriptions("stock", NOON + timedelta(hours=5), [("s5", "me", "h1", wanted)])
    assert {dict(file.partition)["state"] for file in opened if "state" in dict(file.partition)} == {"begun"}
    assert [each.id for each in lake.subscriptions("stock")] == ["s5"]
