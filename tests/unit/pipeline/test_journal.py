"""The journal of a replanner: each window and each decision is one row, whoever writes at the same time."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from pleroma.index import Waste
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.maintenance import maintain
from pleroma.pipeline.lake.table_files import FileReader, ValueSpan
from pleroma.pipeline.watch.journal import Journal, first_of_newest
from pleroma.replanning.decisions import Decision
from pleroma.replanning.reported_counts import ReportedCounts
from pleroma.replanning.windows import MetricKey, TrafficWindow
from support.watch_cases import BEGIN, SCHEMA, WINDOW

AN_HOUR = timedelta(hours=1)


def window(number, length=WINDOW, every=WINDOW):
    counts = {MetricKey("events"): 9, MetricKey("deliveries"): 8, MetricKey("wanted"): 6, MetricKey("pairs"): 7}
    counts |= {MetricKey("epoch", 1): 4, MetricKey("epoch", 3): 5, MetricKey("matched", 1): 2}
    counts |= {MetricKey("histogram", 0, 31): 9, MetricKey("histogram", 2, 32): 1}
    made = TrafficWindow.of(SCHEMA, BEGIN + number * every, length, counts)
    return replace(made, reported=ReportedCounts(3, 2, 4) if number % 2 else None, drift=0.25 if number % 3 else None)


def decision(number, **more):
    start = BEGIN + number * WINDOW
    return Decision("stock", start, start + WINDOW, 1, "waste", 'it\'s "much"', **more)


@pytest.fixture
def lake(tmp_path):
    made = Lake.at(str(tmp_path))
    made.land_schema(SCHEMA, BEGIN)
    return made


@pytest.fixture
def read(monkeypatch):
    """The files that were opened."""
    seen, real = [], FileReader.rows

    def rows(reader, system, root, file, *more):
        seen.append((reader.table, file.path))
        return real(reader, system, root, file, *more)

    monkeypatch.setattr(FileReader, "rows", rows)
    return seen


def test_windows_come_back_as_they_were_in_the_order_of_their_time(lake):
    journal = Journal(lake, "stock")
    assert (journal.windows(), journal.decisions(), journal.begun()) == ([], [], None)
    for number in (3, 1, 2, 0):  # some are late
        assert journal.publish(window(number))
    assert journal.windows() == [window(number) for number in range(4)]
    assert journal.windows(2) == [window(2), window(3)]
    assert journal.begun() == BEGIN
    assert journal.window(BEGIN, BEGIN + WINDOW) == window(0)
    assert Journal(lake, "other").windows() == []


def test_windows_that_begin_together_and_are_of_two_lengths_are_two(lake):
    journal = Journal(lake, "stock")
    short, long = window(0), window(0, 2 * WINDOW)
    assert [journal.publish(each) for each in (short, long, short, long)] == [True, True, False, False]
    assert journal.windows() == [short, long]
    assert journal.window(long.start, long.end) == long


def test_a_published_window_does_not_change(lake):
    journal = Journal(lake, "stock")
    journal.publish(window(0))
    assert not journal.publish(replace(window(0), events=77))
    assert journal.windows() == [window(0)]


def test_of_several_replanners_at_the_same_moment_one_publishes_each_window(lake):
    journals = [Journal(Lake.at(lake.url), "stock") for _ in range(3)]
    with ThreadPoolExecutor(len(journals)) as threads:
        told = list(threads.map(lambda journal: [journal.publish(window(n)) for n in range(6)], journals))
    assert [sum(each) for each in zip(*told, strict=True)] == [1] * 6
    assert Journal(lake, "stock").windows() == [window(n) for n in range(6)]


def test_of_several_replanners_at_the_same_moment_one_has_the_word(lake):
    journals = [Journal(Lake.at(lake.url), "stock") for _ in range(3)]
    with ThreadPoolExecutor(len(journals)) as threads:
        told = list(threads.map(lambda n: journals[n].record(decision(0, seconds=float(n))), range(3)))
    assert sum(told) == 1
    (found,) = journals[0].decisions()
    assert found.seconds == told.index(True)


def test_a_decision_is_one_row_whatever_was_amended(lake):
    journal = Journal(lake, "stock")
    for number in range(20):
        assert journal.record(decision(number, outcome="handing", index={"bits": 3}))
    assert not journal.record(decision(3))
    maintain(lake, 10_000, now=BEGIN + timedelta(days=2))
    assert len(lake.table("decisions").files()) == 1
    made = decision(3, outcome="adopted", new_epoch=2, before=Waste(10, 5), after=Waste(6, 5), seconds=0.5)
    journal.amend(made)
    others = [decision(number, outcome="handing", index={"bits": 3}) for number in range(20) if number != 3]
    assert journal.decisions() == [*others[:3], made, *others[3:]]
    assert journal.decision(made.window, made.end) == made
    journal.amend(decision(30))  # of which there is none
    assert journal.decisions(1) == [decision(30)]


def test_the_newest_windows_are_read_from_few_files(lake, read):
    journal = Journal(lake, "stock")
    hours = [window(number, every=AN_HOUR) for number in range(60)]
    for each in hours:
        journal.publish(each)
    read.clear()
    assert journal.windows(5) == hours[-5:]
    assert len(read) == 5
    maintain(lake, 10_000, now=BEGIN + timedelta(days=9))
    assert len(lake.table("windows").files()) == 3  # one a day
    read.clear()
    assert journal.windows(5) == hours[-5:]
    assert journal.begun() == BEGIN
    assert len(read) == 1
    assert journal.windows(100) == hours


def test_other_programs_find_what_is_known_of_a_window_in_columns(lake):
    journal = Journal(lake, "stock")
    for number in (1, 2):
        journal.publish(window(number))
    rows = DeltaTable(f"{lake.url}/windows").to_pyarrow_table().sort_by("since").to_pylist()
    assert [(row["since"], row["waste"]) for row in rows] == [(BEGIN + n * WINDOW, 0.25) for n in (1, 2)]
    assert [row["reported_wasted"] for row in rows] == [4, None]
    assert (rows[0]["epoch"], rows[0]["epochs"]) == (3, [(1, 4), (3, 5)])
    assert dict(rows[0]["histograms"])["price"][31] == 9


def test_a_damaged_file_of_the_journal_is_named_and_the_rest_is_read(lake, tmp_path):
    journal = Journal(lake, "stock")
    journal.publish(window(0))
    (path,) = (tmp_path / "windows").rglob("*.parquet")
    journal.publish(window(1))
    path.write_bytes(path.read_bytes()[:50])
    assert journal.windows() == [window(1)]
    assert [each.table for each in lake.refused()] == ["windows"]
    assert journal.publish(window(0))
    assert journal.windows() == [window(0), window(1)]


def test_a_decision_whose_row_is_damaged_is_written_anew(lake, tmp_path):
    journal = Journal(lake, "stock")
    journal.record(decision(0, outcome="handing"))
    (path,) = (tmp_path / "decisions").rglob("*.parquet")
    path.write_bytes(path.read_bytes()[:50])
    journal.amend(decision(0, outcome="adopted", new_epoch=2))
    assert journal.decisions() == [decision(0, outcome="adopted", new_epoch=2)]


@given(st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=6), max_size=8), st.integers(1, 20))
def test_from_the_value_that_is_found_on_there_are_the_newest_rows(files, count):
    first = first_of_newest([ValueSpan(min(each), max(each), len(each)) for each in files], count)
    everything = sorted(value for each in files for value in each)
    if first is None:
        assert len(everything) < count
    else:
        assert [value for value in everything if value >= first][-count:] == everything[-count:]
        assert len([value for value in everything if value >= first]) >= count
