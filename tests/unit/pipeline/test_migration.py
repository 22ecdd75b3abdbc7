"""What a lake of the old layout has is in the new one, once, however often and whenever the migration was stopped."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from pleroma.cli.command_tree import app
from pleroma.cli.output import one_line_errors
from pleroma.content import Filter, Integer, Real, Schema, Text
from pleroma.errors import LakeError
from pleroma.index import GridIndex, IndexPlan
from pleroma.pipeline import migration
from pleroma.pipeline.lake import lake_table
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.landed import RegistrationRow
from pleroma.pipeline.lake.old_layout import OldLake
from pleroma.pipeline.migration import MigrationResult, migrate
from pleroma.pipeline.watch.journal import Journal
from pleroma.replanning.decisions import Decision
from pleroma.replanning.windows import MetricKey, TrafficWindow
from support.mortal_commits import Died, dying
from support.old_lake import OldLakeWriter
from support.strategies import STOCK

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
ODD = Schema("a/b ☃", (Integer("id", False, 0, 9), Real("AT", False, 0.0, 9.0), Text("x", True)))
PLANS = [IndexPlan(epoch, GridIndex.regular(STOCK, epoch), 8 * epoch) for epoch in (1, 2)]
WINDOW = TrafficWindow.of(STOCK, NOON, MINUTE, {MetricKey("events"): 7, MetricKey("epoch", 2): 7})
DECISION = Decision("stock", NOON, NOON + MINUTE, 2, "waste", "too much", outcome="adopted", new_epoch=3)
ANY, CHEAP = "[{}]", '[{"price": {"<": 5}}]'


def event(number, at, epoch=1, rate=0.5, **attributes):
    given = attributes or {"price": 0.5, "volume": number, "ticker": f"T{number}"}
    return {"id": 10**15 + number, "at": at, "epoch": epoch, "rate": rate, **given}


def report(number, at):
    return {
        "at": at,
        "subscription": f"s{number}",
        "principal": "me",
        "delivered": number,
        "wasted": 1,
        "duplicates": 2,
        "dropped": 3,
    }


@pytest.fixture
def writer(tmp_path):
    """Two schemas; of `stock` an hour of parts, one of a fold with its parts, and one with both."""
    made = OldLakeWriter(tmp_path / "old")
    made.schema(STOCK)
    made.schema(ODD)
    made.rate("stock", 0.25)
    for plan in PLANS:
        made.plan(plan, 8 * plan.epoch, NOON + plan.epoch * HOUR)
    for number in (0, 1):
        made.events(STOCK, 100 + number, [event(number, NOON, epoch=number, rate=0.1 + number)])
    for number in (2, 3):
        made.events(STOCK, 100 + number, [event(number, NOON + HOUR)])
    made.events(STOCK, 103, [event(number, NOON + HOUR, epoch=number) for number in (2, 3)], fold_from=102)
    made.events(STOCK, 106, [event(number, NOON + 2 * HOUR) for number in (5, 6)], fold_from=105)  # its parts are gone
    made.events(STOCK, 104, [event(4, NOON + 2 * HOUR)])
    made.events(STOCK, 107, [event(7, NOON + 2 * HOUR)])
    made.events(ODD, 107, [event(8, NOON + HOUR / 2) | {"_id": 8, "_at": NOON} | {"id": 3, "AT": 1.5, "x": None}])
    for number in (1, 2):
        made.reports("stock", 200 + number, [report(number, NOON)])
    made.reports("stock", 202, [report(number, NOON) for number in (1, 2)], fold_from=201)
    made.reports("a/b ☃", 203, [report(9, NOON)])
    made.snapshot("stock", NOON, [("s1", "me", "h1", ANY), ("s2", "me", "h1", CHEAP)])
    made.snapshot("stock", NOON + HOUR, [("s2", "me", "h1", ANY)])
    made.snapshot("stock", NOON + 2 * HOUR, [("s2", "me", "h1", ANY), ("s1", "me", "h1", ANY)])
    made.journal("windows", "stock", NOON, WINDOW.to_json())
    made.journal("decisions", "stock", NOON, DECISION.to_json())
    (made.root / "events/schema=stock/date=2026-11-15/hour=12/.part-x.parquet.unfinished").write_text("?")
    return made


def migrated(writer, lake=None):
    lake = lake or Lake.at(str(writer.root.parent / "new"))
    return lake, migrate(OldLake(str(writer.root)), lake)


def event_rows(lake, name="stock"):
    columns = [each for each in lake.event_table(name).definition.schema.names if each not in ("id", "landing", "__id")]
    return sorted(tuple(row[each] for each in columns) for row in lake.event_table(name).rows().to_pylist())


def check(lake):
    """All that the old lake has, row by row."""
    assert lake.schemas() == ["a/b ☃", "stock"]
    assert (lake.schema("stock"), lake.schema("a/b ☃")) == (STOCK, ODD)
    assert (lake.sampling("stock"), lake.sampling("a/b ☃")) == (0.25, None)
    assert [(each.epoch, each.since, each.members) for each in lake.plans("stock")] == [
        (1, NOON + HOUR, 8),
        (2, NOON + 2 * HOUR, 16),
    ]
    assert [each.plan.checksum for each in lake.plans("stock")] == [each.checksum for each in PLANS]
    hours = {0: 12, 1: 12, 2: 13, 3: 13, 4: 14, 5: 14, 6: 14, 7: 14}
    rates = {0: 0.1, 1: 1.1}
    epochs = {0: 0, 1: 1, 2: 2, 3: 3}
    order = {"price": 0.5}
    assert event_rows(lake) == sorted(
        (
            f"2026-11-15T{hours[n]}",
            NOON.replace(hour=hours[n]),
            epochs.get(n, 1),
            rates.get(n, 0.5),
            None,  # nobody knew who had sent it
            *(order.get(name, {"volume": n, "ticker": f"T{n}"}.get(name)) for name in STOCK.names),
        )
        for n in range(8)
    )
    assert len({row["id"] for row in lake.event_table("stock").rows().to_pylist()}) == 8
    assert [tuple(row.values())[3:] for row in lake.event_table("a/b ☃").rows().to_pylist()] == [
        (NOON, 1, 0.5, None, 3, 1.5, None)
    ]
    reports = lake.table("reports").rows().to_pylist()
    assert sorted(tuple(row.values())[3:] for row in reports) == [
        (NOON, f"s{n}", "me", n, None, 1, 2, 3) for n in (1, 2, 9)
    ]
    assert sorted((row["schema"], row["hour"]) for row in reports) == [
        ("a/b ☃", "2026-11-15T12"),
        ("stock", "2026-11-15T12"),
        ("stock", "2026-11-15T12"),
    ]
    entries = lake.subscription_history("stock").entries
    assert {(row.id, row.filter, since, until) for row, since, until in entries} == {
        ("s1", ANY, NOON, NOON + HOUR),
        ("s1", ANY, NOON + 2 * HOUR, None),
        ("s2", CHEAP, NOON, NOON + HOUR),
        ("s2", ANY, NOON + HOUR, None),
    }
    assert len(lake.table("subscriptions").rows()) == 4
    assert lake.known_since("stock") == NOON
    journal = Journal(lake, "stock")
    assert journal.windows() == [WINDOW]
    assert journal.decisions() == [DECISION]


def test_everything_is_in_the_new_lake_once(writer):
    lake, result = migrated(writer)
    check(lake)
    assert result == MigrationResult(events=9, reports=3, subscriptions=4, plans=2, windows=1, decisions=1)
    assert lake.refused() == []


def test_progress_is_told_for_every_file(writer):
    old, steps = OldLake(str(writer.root)), []
    migrate(old, Lake.at(str(writer.root.parent / "new")), steps.append)
    assert sum(steps) == old.count() == 19


def test_repeated_it_changes_nothing(writer):
    lake, _ = migrated(writer)
    assert migrated(writer, Lake.at(lake.url))[1] == MigrationResult()
    check(Lake.at(lake.url))


def test_whenever_it_is_stopped_it_goes_on_where_it_was(writer, monkeypatch):
    """Before and after each commit, with as many commits as can be."""
    monkeypatch.setattr(migration, "ROWS_AT_ONCE", 2)
    deaths = count = 0
    while deaths == count:
        lake = Lake.at(str(writer.root.parent / f"new {count}"))
        count += 3 if count > 3 else 1
        try:
            with dying(monkeypatch, count):
                migrated(writer, lake)
        except Died:
            deaths = count
        migrated(writer, Lake.at(lake.url))
        check(Lake.at(lake.url))
    assert deaths > 20


def test_damaged_files_are_named_and_the_rest_is_landed(writer):
    damaged = {
        "events/schema=stock/date=2026-11-15/hour=12/part-000000000000100-000001-5f0c1b2a.parquet": b"PAR1",
        "reports/schema=stock/date=2026-11-15/hour=12/fold-000000000000201-000000000000202-5f0c1b2a.parquet": b"",
        "plans/schema=stock/epoch-00000001.json": b"{",
        "windows/schema=stock/20261115T120000.000000Z.json": b'{"schema": 3}',
        "decisions/schema=stock/20261115T120000.000000Z.json": b"[]",
        "sampling/stock.json": b"{}",
        "schemas/a%2Fb%20%E2%98%83.json": b'{"name": 3}',
    }
    for path, content in damaged.items():
        assert (writer.root / path).exists()
        (writer.root / path).write_bytes(content)
    other = writer.events(STOCK, 110, [event(1, NOON)])
    writer.schema(Schema("twin", (Integer("x", False, 0, 9),)))
    theirs = writer.events(Schema("twin", (Integer("x", False, 0, 9),)), 111, [event(1, NOON, x=3)])
    other.write_bytes(theirs.read_bytes())
    bad = writer.snapshot("stock", NOON + 5 * HOUR, [("s1", "me", "h1", '[{"colour": {"<": 5}}]')])
    damaged |= {str(each.relative_to(writer.root)): b"" for each in (other, bad)}
    lake, result = migrated(writer)
    assert result.refused.keys() == damaged.keys()
    assert all(reason and "\n" not in reason for reason in result.refused.values())
    assert {each.path for each in lake.refused()} == {f"{writer.root}/{path}" for path in damaged}
    assert len(event_rows(lake)) == 7
    assert len(event_rows(lake, "twin")) == 1
    assert [each.epoch for each in lake.plans("stock")] == [2]
    assert len(lake.table("reports").rows()) == 0
    assert Journal(lake, "stock").windows() == []
    _, again = migrated(writer, Lake.at(lake.url))
    assert (again.events, again.reports) == (0, 0)


def test_files_of_two_writers_at_the_same_millisecond_are_both_landed(writer):
    twin = writer.events(STOCK, 110, [event(10, NOON)])
    twin.rename(twin.with_name(twin.name.replace("5f0c1b2a", "00000000")))
    writer.events(STOCK, 110, [event(11, NOON)])
    lake, _ = migrated(writer)
    assert {10, 11} <= {row["volume"] for row in lake.event_table("stock").rows().to_pylist()}
    assert migrated(writer, Lake.at(lake.url))[1].events == 0


def test_the_controller_goes_on_with_the_subscriptions_of_the_old_lake(writer):
    lake, _ = migrated(writer)
    rows = [RegistrationRow("s2", "me", "h1", Filter.parse(STOCK, "price < 900"))]
    assert lake.land_subscriptions("stock", NOON + 3 * HOUR, rows, position=1) == 3
    assert lake.subscriptions("stock") == rows
    assert [row.id for row in lake.subscriptions("stock", NOON + 2 * HOUR)] == ["s2", "s1"]


def test_a_controller_may_have_begun_with_the_new_lake_before(writer):
    """What it has landed stays as it is, and what the old lake knows ends where that begins."""
    lake = Lake.at(str(writer.root.parent / "new"))
    began = NOON + 1.5 * HOUR
    lake.land_schema(STOCK, began)
    lake.land_sampling("stock", 0.75)
    lake.land_plan(IndexPlan(3, GridIndex.regular(STOCK, 3)), began)
    rows = [RegistrationRow(name, "me", "h1", Filter.parse(STOCK, "price < 900")) for name in ("s2", "s7")]
    lake.land_subscriptions("stock", began, rows, position=40)
    for _ in range(2):
        migrated(writer, lake)
        assert [each.epoch for each in lake.plans("stock")] == [1, 2, 3]
        assert (lake.sampling("stock"), lake.known_since("stock")) == (0.75, NOON)
        assert lake.subscriptions("stock") == rows
        found = lake.subscription_history("stock").entries
        assert {(row.id, since, until) for row, since, until in found} == {
            ("s1", NOON, NOON + HOUR),
            ("s2", NOON, NOON + HOUR),
            ("s2", NOON + HOUR, began),
            ("s2", began, None),
            ("s7", began, None),
        }
    assert lake.land_subscriptions("stock", NOON + 3 * HOUR, [], position=41) == 2
    assert lake.subscriptions("stock") == []


def test_a_lake_with_another_schema_of_the_same_name_is_refused(writer):
    lake = Lake.at(str(writer.root.parent / "new"))
    lake.land_schema(Schema("stock", STOCK.attributes[:1]), NOON)
    with pytest.raises(LakeError, match="another schema"):
        migrated(writer, lake)


def test_somebody_else_who_migrates_to_the_same_lake_is_noticed(writer, monkeypatch):
    monkeypatch.setattr(migration, "ROWS_AT_ONCE", 1)
    lake, other = (Lake.at(str(writer.root.parent / "new")) for _ in range(2))
    real, is_first = OldLake.events, True

    def events(self, file, schema):
        nonlocal is_first
        if is_first:
            is_first = False
            migrate(OldLake(str(writer.root)), other)
        return real(self, file, schema)

    monkeypatch.setattr(OldLake, "events", events)
    with pytest.raises(LakeError, match="somebody else"):
        migrated(writer, lake)
    monkeypatch.undo()
    migrated(writer, lake)
    check(lake)


@pytest.mark.parametrize("new", ["old", "old/new"])
def test_the_new_lake_is_not_in_the_old_one(writer, new):
    with pytest.raises(LakeError, match="a place of its own"):
        migrated(writer, Lake.at(str(writer.root.parent / new)))


def test_what_is_no_old_lake_is_refused(writer, tmp_path):
    lake, _ = migrated(writer)
    for wrong in (lake.url, str(tmp_path / "nowhere")):
        with pytest.raises(LakeError, match="no lake of the old layout"):
            OldLake(wrong)


def test_the_commands_tell_what_they_did(writer):
    runner, old, new = CliRunner(), str(writer.root), str(writer.root.parent / "new")
    (writer.root / "sampling/stock.json").write_text("{")
    done = runner.invoke(app, ["pipeline", "migrate", old, new])
    assert done.exit_code == 0, done.output
    assert "events" in done.output
    assert "sampling/stock.json" in done.output
    again = runner.invoke(app, ["pipeline", "migrate", old, new, "--json"])
    figures = json.loads(again.stdout.splitlines()[-1])
    assert (figures["events"], list(figures["refused"])) == (0, ["sampling/stock.json"])
    tidied = runner.invoke(app, ["pipeline", "maintain", new, "--keep", "100000", "--json"])
    assert json.loads(tidied.stdout.splitlines()[-1])["failed"] == []
    assert runner.invoke(app, ["pipeline", "maintain", new, "--keep", "0"]).exit_code == 0
    assert Lake.at(new).event_hours("stock") == []


def test_a_lake_that_is_not_there_is_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit), one_line_errors():
        app(["pipeline", "maintain", str(tmp_path / "nowhere")], standalone_mode=False)
    assert capsys.readouterr().err.count("\n") == 1


def test_a_table_that_could_not_be_tidied_is_a_failure_of_the_command(writer, monkeypatch):
    lake, _ = migrated(writer)
    monkeypatch.setattr(lake_table, "write_deltalake", lambda *_, **__: (_ for _ in ()).throw(OSError("no space")))
    done = CliRunner().invoke(app, ["pipeline", "maintain", lake.url, "--keep", "100000"])
    assert done.exit_code == 1
    assert "no space" in done.output
