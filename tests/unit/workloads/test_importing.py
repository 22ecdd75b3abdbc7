"""One's own data as a workload: files of rows and of filters, what does not fit, and subscriptions around events."""

import gzip
import json
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pleroma.content import Boolean, Category, Filter, Integer, Real, Schema, Text, Timestamp
from pleroma.content.batch import EventBatch
from pleroma.errors import WorkloadError
from pleroma.workloads import Workload, data_files
from pleroma.workloads.data_files import DataFile
from pleroma.workloads.importing import FilterFile, LeftOut, import_workload, unused_columns
from pleroma.workloads.subscriptions_around import SubscriptionsAround

ORDERS = Schema(
    "orders",
    (
        Text("state", False),
        Category("ship_mode", False, ("Same Day", "First Class")),
        Real("sales", False, 0.0, 1000.0),
        Integer("quantity", True, 1, 14),
    ),
)
ROWS = [
    {"state": "Ohio", "ship_mode": "Same Day", "sales": 12.5, "quantity": 3},
    {"state": "New, York", "ship_mode": "First Class", "sales": 1000.0, "quantity": None},
    {"state": "Utah", "ship_mode": "First Class", "sales": 0.25, "quantity": 14},
]
HEADER = "State,Ship Mode,Sales,Quantity,Postal Code"
LINES = ['Ohio,Same Day,12.5,3,1', '"New, York",First Class,1e3,,2', "Utah,First Class,.25,14,3"]  # fmt: skip


def written(tmp_path, name, lines):
    path = tmp_path / name
    text = "".join(f"{line}\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def imported(tmp_path, path, filters=("sales > 10", "state = 'Utah'"), skip=False):
    source = DataFile.at(path)
    rows, lines = (LeftOut(each, unit, skip) for each, unit in ((path, source.unit), ("filters.txt", "line")))
    wanted = FilterFile(written(tmp_path, "filters.txt", filters), ORDERS, lines)
    label = import_workload(tmp_path / "workload", ORDERS, source, wanted, rows)
    return Workload.load(tmp_path / "workload"), label, rows, lines


@pytest.mark.parametrize("name", ["o.csv", "o.csv.gz", "o.tsv", "o.jsonl", "o.ndjson.gz", "o.parquet"])
def test_events_are_the_same_from_every_kind_of_file(tmp_path, name):
    if name.endswith("parquet"):
        path = tmp_path / name
        pq.write_table(
            pa.Table.from_pylist([{"Ship Mode" if k == "ship_mode" else k: v for k, v in row.items()} for row in ROWS]),
            path,
        )
    elif "json" in name:
        path = written(tmp_path, name, ["", *map(json.dumps, ROWS)])
    else:
        lines = [HEADER, *LINES]
        tabs = ["\t".join(["State", "Ship Mode", "Sales", "Quantity"]), *(
            "\t".join("" if value is None else str(value) for value in row.values()) for row in ROWS)]  # fmt: skip
        path = written(tmp_path, name, tabs if "tsv" in name else lines)
    workload, label, _, _ = imported(tmp_path, path)
    expected = EventBatch.from_columns(ORDERS, {each: [row[each] for row in ROWS] for each in ORDERS.names})
    assert workload.events == expected
    assert [str(each) for each in workload.subscriptions] == ["sales > 10", "state == 'Utah'"]
    assert (label["events"], label["subscriptions"]) == (3, 2)
    assert workload.description["events"] == {"file": name, "left_out": 0}


def test_a_file_is_read_in_pieces_and_numbers_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(data_files, "CHUNK_ROWS", 2)
    path = written(tmp_path, "o.csv", [HEADER, *LINES, *LINES])
    assert [list(each.places) for each in DataFile.at(path).chunks()] == [[2, 3], [4, 5], [6, 7]]
    workload, _, _, _ = imported(tmp_path, path)
    assert len(workload.events) == 6
    assert workload.events[:3] == workload.events[3:]


BAD = "Ohio,Same Day,12.5,15,1"


@pytest.mark.parametrize(
    ("name", "lines", "said"),
    [
        ("o.csv", [HEADER, LINES[0], BAD], "o.csv, line 3: quantity: 15 is outside [1, 14]"),
        ("o.csv", [HEADER, LINES[0], "", '"O\nhio",Same Day,x,1,1'], "o.csv, line 5: sales: 'x' is not real"),
        ("o.csv", [HEADER, "Ohio,Same Day"], "o.csv, line 2: has 2 values, and there are 5 columns"),
        ("o.csv", [HEADER, ",Same Day,1,1,1"], "o.csv, line 2: state: a value is required"),
        ("o.csv", [HEADER, "Ohio,Same Day,,1,1"], "o.csv, line 2: sales: a value is required"),
        ("o.csv", [HEADER, "Ohio,Sane Day,1,1,1"], "o.csv, line 2: "),
        ("o.jsonl", [json.dumps(ROWS[0]), "{"], "o.jsonl, line 2: is not a JSON object"),
        ("o.jsonl", ["[]"], "o.jsonl, line 1: is not a JSON object"),
        ("o.jsonl", [json.dumps(ROWS[0]), '{"state": "Ohio"}'], "o.jsonl, line 2: "),
        ("o.jsonl", [json.dumps(ROWS[0] | {"state": ["Ohio"]})], "o.jsonl, line 1: state: ['Ohio'] is not text"),
    ],
)
def test_a_row_that_does_not_fit_is_named_by_its_line_or_left_out_and_counted(tmp_path, name, lines, said):
    path = written(tmp_path, name, lines)
    with pytest.raises(WorkloadError) as caught:
        imported(tmp_path, path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "workload" / "events.parquet").exists()
    good = LINES[2] if "csv" in name else json.dumps(ROWS[2])
    workload, label, rows, _ = imported(tmp_path, written(tmp_path, name, [*lines, good]), skip=True)
    assert rows.count == label["description"]["events"]["left_out"] == 1
    assert rows.first in str(caught.value)
    assert workload.events.event(len(workload.events) - 1)["state"] == "Utah"


def test_a_filter_that_does_not_fit_is_named_by_its_line_or_left_out_and_counted(tmp_path):
    path = written(tmp_path, "o.csv", [HEADER, *LINES])
    filters = ["# who wants what", "", "sales > 10", "sale > 10", "quantity = 20"]
    with pytest.raises(WorkloadError, match=r"filters.txt, line 4: .*did you mean 'sales'"):
        imported(tmp_path, path, filters)
    workload, _, _, lines = imported(tmp_path, path, filters, skip=True)
    assert lines.count == 2
    assert lines.first.startswith("line 4: ")
    assert len(workload.subscriptions) == 1


def test_a_file_without_a_filter_is_refused(tmp_path):
    path = written(tmp_path, "o.csv", [HEADER, *LINES])
    with pytest.raises(WorkloadError, match=r"filters.txt: has no filter of this schema"):
        imported(tmp_path, path, ["# nobody", ""])
    (tmp_path / "filters.bin").write_bytes(b"\xff")
    with pytest.raises(WorkloadError, match="is not UTF-8 text"):
        list(FilterFile(tmp_path / "filters.bin", ORDERS, LeftOut(path, "line", True)).drawn(None))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("o.txt", b"", "is data if its name ends in"),
        ("o.csv", b"", "has no header"),
        ("o.csv", b"a,b,a\n", "has two columns 'a'"),
        ("o.csv", b"State,Sales\n", "has no column 'ship_mode', only State, Sales"),
        ("o.csv", f"{HEADER}\n".encode(), "has no event of this schema"),
        ("o.csv", b"\xff\xfe", "is not UTF-8 text"),
        ("o.csv.gz", b"no gzip", "cannot be unpacked"),
        ("o.parquet", b"no Parquet", "is not a readable Parquet file"),
    ],
)
def test_what_is_no_data_is_refused_in_one_line(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(WorkloadError, match=said) as caught:
        imported(tmp_path, tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_columns_that_no_attribute_is_called_like_are_named(tmp_path):
    path = written(tmp_path, "o.csv", [HEADER, *LINES])
    assert unused_columns(DataFile.at(path), ORDERS) == ("Postal Code",)


def test_parquet_rows_are_counted_where_there_are_no_lines(tmp_path):
    path = tmp_path / "o.parquet"
    pq.write_table(pa.Table.from_pylist([ROWS[0], ROWS[0] | {"quantity": 0}]), path)
    with pytest.raises(WorkloadError, match=r"o.parquet, row 2: quantity: 0 is outside \[1, 14\]"):
        imported(tmp_path, path)


@pytest.fixture(scope="module")
def events():
    random = np.random.default_rng(3)
    return EventBatch.from_columns(
        ORDERS,
        {
            "state": random.choice(["Ohio", "Utah", "Iowa"], 4000).tolist(),
            "ship_mode": random.choice(["Same Day", "First Class"], 4000).tolist(),
            "sales": np.minimum(random.exponential(50.0, 4000), 1000.0),
            "quantity": [None if each == 0 else int(each) for each in random.integers(0, 15, 4000)],
        },
    )


def test_a_drawn_range_holds_the_share_of_events_asked_for_however_they_are_spread(events):
    for width in (0.1, 0.4):
        drawn = SubscriptionsAround(subscriptions=400, limited=0.0, width=width).drawn(events)
        shares = [events.matches(each).mean() for each in drawn if each.boxes[0].ranges[2] != ORDERS["sales"].domain]
        assert len(shares) > 50
        assert np.mean(shares) == pytest.approx(width, rel=0.25)


def test_drawn_subscriptions_want_the_event_they_are_around_and_limit_what_they_should(events):
    settings = SubscriptionsAround(subscriptions=200, limited=0.4, width=0.2, seed=5)
    drawn = list(settings.drawn(events))
    limits = [
        [part != a.domain for a, part in zip(ORDERS.attributes, each.boxes[0].ranges, strict=True)] for each in drawn
    ]
    assert all(events.matches(each).any() for each in drawn)
    assert np.mean(limits) == pytest.approx(0.25 + 0.75 * 0.4, abs=0.08)
    assert drawn == list(settings.drawn(events))
    assert drawn[:50] == list(SubscriptionsAround(subscriptions=50, seed=5).drawn(events))
    assert drawn != list(SubscriptionsAround(subscriptions=200, seed=6).drawn(events))
    assert all(Filter.parse(ORDERS, str(each)) == each for each in drawn)


@pytest.mark.parametrize(
    ("field", "value"), [("subscriptions", 0), ("width", 0), ("width", 1.5), ("limited", 2), ("seed", -1)]
)
def test_impossible_settings_are_refused(field, value):
    with pytest.raises(WorkloadError, match=field):
        SubscriptionsAround(**({"subscriptions": 5} | {field: value}))


def test_nothing_is_drawn_around_no_events(events):
    with pytest.raises(WorkloadError, match="no events"):
        list(SubscriptionsAround(subscriptions=1).drawn(events[[]]))


def test_booleans_and_moments_are_read_from_every_kind_of_file(tmp_path):
    schema = Schema(
        "doors", (Boolean("is_open", False), Timestamp.of("at", False, "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"))
    )
    moments = [datetime(2026, 11, 16, 20, minute, tzinfo=UTC) for minute in range(3)]
    texts = [(str(is_open), at.isoformat()) for is_open, at in zip((True, False, True), moments, strict=True)]
    lines = {
        "d.csv": ["Is open,at", *(f"{is_open},{at}" for is_open, at in texts)],
        "d.jsonl": [json.dumps({"is_open": is_open == "True", "at": at}) for is_open, at in texts],
    }
    paths = [written(tmp_path, name, rows) for name, rows in lines.items()]
    paths.append(tmp_path / "d.parquet")
    columns = {"is_open": [True, False, True], "at": pa.array(moments, pa.timestamp("ns", "UTC"))}
    pq.write_table(pa.table(columns), paths[-1])
    found = []
    for path in paths:
        around = SubscriptionsAround(subscriptions=5)
        import_workload(tmp_path / path.stem, schema, DataFile.at(path), around, LeftOut(path, "line", False))
        found.append(Workload.load(tmp_path / path.stem))
    assert [each["at"] for each in found[0].events] == moments
    assert [each["is_open"] for each in found[0].events] == [True, False, True]
    assert all(each.events == found[0].events for each in found)
    assert all(each.subscriptions == found[0].subscriptions for each in found)


def test_the_narrowest_range_holds_the_events_value_and_no_other():
    schema = Schema("s", (Integer("a", False, 0, 99),))
    events = EventBatch.from_columns(schema, {"a": [10, 20, 20, 30]})
    drawn = SubscriptionsAround(subscriptions=20, width=1e-9).drawn(events)
    assert {str(each) for each in drawn} == {"a == 10", "a == 20", "a == 30"}
