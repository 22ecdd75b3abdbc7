"""The tables of a lake are read by everybody's tools, without us: the same rows, of sensible types."""

from datetime import UTC, datetime, timedelta

import duckdb
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from pleroma.content import Category, Filter, Integer, Real, Schema, Text
from pleroma.content.batch import EventBatch
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.lake_tables import TABLES, event_table
from pleroma.pipeline.lake.landed import BatchId
from support.small_lake import small_lake

BEGIN = datetime(2026, 11, 15, 16, 59, tzinfo=UTC)
ODD = Schema(
    "stock/prices of 100%, ü",
    (
        Real("price.last", False, 0.0, 100.0),
        Integer("_id", False, 0, 1000),
        Integer("id", True, 0, 1000),
        Text("ticker", True),
        Category("Market", True, ("lse", "nyse")),
    ),
)
EVENTS = [
    {"price.last": 1.5, "_id": 1, "id": 7, "ticker": "it's \N{GREEK SMALL LETTER ALPHA}\n", "Market": "lse"},
    {"price.last": 99.0, "_id": 2, "id": None, "ticker": None, "Market": None},
    {"price.last": 0.0, "_id": 3, "id": 9, "ticker": "", "Market": "nyse"},
]


def landed_rows(lake):
    given = [{name: value for name, value in each.items() if value is not None} for each in EVENTS]
    events = EventBatch.from_events(ODD, [ODD.event(**each) for each in given])
    lake.land_events(events, [BEGIN + timedelta(minutes=each) for each in range(3)], 1, 0.5, BatchId("p", 1))


@pytest.fixture
def lake(tmp_path):
    made = Lake.at(str(tmp_path / "lake"))
    made.land_schema(ODD, BEGIN)
    landed_rows(made)
    return made


def by_deltalake(url):
    return DeltaTable(url).to_pyarrow_table().to_pylist()


def by_pandas(url):
    rows = DeltaTable(url).to_pandas().to_dict("records")
    return [{name: None if str(value) in ("nan", "NaT") else value for name, value in row.items()} for row in rows]


def by_polars(url):
    assert polars.scan_delta(url).collect().equals(polars.read_delta(url))
    return polars.read_delta(url).to_dicts()


def by_duckdb(url):
    connection = duckdb.connect()
    connection.sql("set timezone = 'UTC'")
    connection.register("rows", DeltaTable(url).to_pyarrow_dataset())
    return connection.sql("select * from rows").to_arrow_table().to_pylist()


READERS = [by_deltalake, by_pandas, by_polars, by_duckdb]


@pytest.mark.parametrize("reader", READERS)
def test_events_of_an_odd_schema_are_read_by(reader, lake):
    rows = sorted(reader(lake.event_table(ODD.name).url), key=lambda row: row["at"])
    attributes = [{name: row[name] for name in EVENTS[0]} for row in rows]
    assert attributes == EVENTS
    assert [row["hour"] for row in rows] == ["2026-11-15T16", "2026-11-15T17", "2026-11-15T17"]
    assert [row["at"] for row in rows] == [BEGIN + timedelta(minutes=each) for each in range(3)]
    assert {(row["landing"], row["epoch"], row["rate"]) for row in rows} == {(1, 1, 0.5)}
    assert len({row["__id"] for row in rows}) == 3


def test_the_folder_of_an_odd_schema_is_seen_by_all_tools(lake):
    folder = lake.event_table(ODD.name).url.rpartition("/")[2]
    assert folder.startswith("stock~2Fprices~20of~20100~25")
    assert not set(folder) & set("%#?[]|^\\ ")


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("reader", READERS)
def test_each_table_has_its_columns_and_the_same_rows_for(reader, name, everything):
    ours = everything.table(name).rows().to_pylist()
    theirs = reader(everything.table(name).url)
    assert set(theirs[0]) == set(TABLES[name].schema.names)
    assert sorted(map(_plain, theirs)) == sorted(map(_plain, ours))


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    return small_lake(str(tmp_path_factory.mktemp("lake")))


@pytest.mark.parametrize("name", ["events/stock", *TABLES])
def test_each_table_has_the_types_that_were_meant(everything, name):
    expected = event_table(everything.schema("stock")) if "/" in name else TABLES[name]
    found = pa.schema(DeltaTable(f"{everything.url}/{name}").schema().to_arrow())
    assert [(each.name, _type(each.type)) for each in found] == [
        (each.name, _type(each.type)) for each in expected.schema
    ]
    assert DeltaTable(f"{everything.url}/{name}").metadata().description == expected.meaning
    assert tuple(DeltaTable(f"{everything.url}/{name}").metadata().partition_columns) == expected.partitioned_by


def test_a_version_of_before_is_read_by_its_number_and_its_time(lake):
    table = DeltaTable(lake.event_table(ODD.name).url)
    version, moment = table.version(), datetime.now(UTC)
    landed_rows(Lake.at(lake.url))  # a batch that is known: nothing changes
    more = EventBatch.from_events(ODD, [ODD.event(**{"price.last": 5.0, "_id": 9})])
    lake.land_events(more, [BEGIN], 1, 0.5, BatchId("p", 2))
    assert DeltaTable(table.table_uri).to_pyarrow_table().num_rows == 4
    assert DeltaTable(table.table_uri, version=version).to_pyarrow_table().num_rows == 3
    table.load_as_version(moment)
    assert table.to_pyarrow_table().num_rows == 3
    assert polars.read_delta(table.table_uri, version=version).height == 3


def test_what_was_in_force_is_a_question_of_rows_and_not_of_versions(lake):
    wanted = Filter.parse(ODD, "price.last < 50")
    lake.land_subscriptions(ODD.name, BEGIN, [("s1", "ann", "h1", wanted)])
    lake.land_subscriptions(ODD.name, BEGIN + timedelta(hours=1), [])
    rows = polars.read_delta(lake.table("subscriptions").url)
    in_force = (
        rows.filter(polars.col("since") <= BEGIN)
        .group_by("id", "since")
        .agg(polars.col("until").max())
        .filter(polars.col("until").is_null() | (polars.col("until") > BEGIN))
    )
    assert in_force["id"].to_list() == ["s1"]
    assert rows["boxes"].to_list()[0] == [[{"attribute": "price.last", "low": 0.0, "high": pytest.approx(50.0)}]]


def test_duckdb_reads_a_table_with_its_own_extension(everything):
    connection = duckdb.connect()
    try:
        connection.load_extension("delta")
    except duckdb.Error:
        pytest.skip("NO DELTA EXTENSION OF DUCKDB here: delta_scan is not tried")
    found = connection.execute("select count(*) from delta_scan(?)", [f"{everything.url}/events/stock"]).fetchone()
    assert found == (40,)


def _type(kind):
    """A type by what it holds: Delta has no names for the parts of lists and maps."""
    if pa.types.is_map(kind):
        return "map", _type(kind.key_type), _type(kind.item_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return "list", _type(kind.value_type)
    if pa.types.is_struct(kind):
        return tuple((each.name, _type(each.type)) for each in kind)
    return str(kind).removeprefix("large_").removesuffix("_view")


def _plain(row):
    """A row as a text, whatever stands for maps, moments and nothing in it."""
    return str({name: _value(row[name]) for name in sorted(row)})


def _value(value):
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict) and set(value) == {"key", "value"}:
        return _value((value["key"], value["value"]))
    if isinstance(value, dict):
        return [_value(each) for each in value.items()]
    if isinstance(value, list | tuple):
        return [_value(each) for each in value]
    if value is None or str(value) in ("nan", "NaT"):
        return None
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return int(value) if isinstance(value, float) and value.is_integer() else value
