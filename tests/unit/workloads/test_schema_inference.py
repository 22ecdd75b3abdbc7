"""A schema for data that is there: every row of the data fits it, and what was decided is explained."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pleroma.content import Boolean, Category, Integer, Real, Text, Timestamp
from pleroma.errors import WorkloadError
from pleroma.workloads import data_files
from pleroma.workloads.schema_inference import SchemaInference

INFERENCE = SchemaInference(margin=0.1, max_categories=5)
ROWS = [
    {"price": 12.5, "count": 3, "market": "nyse", "ticker": f"T{n}", "open": n % 2 == 0, "code": f"0{n}"}
    for n in range(40)
]
ROWS += [{"price": 997.25, "count": 1021, "market": "lse", "ticker": "Z", "open": True, "code": "07", "extra": 5}]
MOMENTS = ["2024-03-01T00:00:00Z", "2026-11-16T21:00:00+01:00"]


def write(folder, kind, rows):
    path = folder / f"quotes.{kind}"
    names = list(dict.fromkeys(name for row in rows for name in row))
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "parquet":
        pq.write_table(pa.table({name: [row.get(name) for row in rows] for name in names}), path, row_group_size=7)
    else:
        lines = [",".join(names), *(",".join(str(row.get(name, "")) for name in names) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    return path


def inferred(path, **settings):
    found = (SchemaInference(**settings) if settings else INFERENCE).infer(path, "quotes")
    return found.schema, {each.column: each.why for each in found.columns}


def column(folder, values, kind="csv", **settings):
    """The attribute of a column of these values, beside one that keeps rows from being empty."""
    rows = [{"n": 1} | ({} if value is None else {"x": value}) for value in values]
    schema, why = inferred(write(folder, kind, rows), **settings)
    return schema["x"] if "x" in schema.names else None, why["x"]


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_every_kind_of_file_gives_the_same_schema_and_all_rows_fit(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(data_files, "CHUNK_ROWS", 16)
    schema, why = inferred(write(tmp_path, kind, ROWS))
    assert schema["price"] == Real("price", False, 0.0, 1100.0)
    assert schema["count"] == Integer("count", False, 0, 1200)
    assert schema["market"] == Category("market", False, ("lse", "nyse"))
    assert schema["ticker"] == Text("ticker", False)
    assert schema["open"] == Boolean("open", False)
    assert schema["code"] == Text("code", False)
    assert schema["extra"] == Integer("extra", True, 4, 6)
    assert "missing in 40 of 41 rows, so optional" in why["extra"]
    assert "2 different texts in 41 rows" in why["market"]
    assert "numbers from 12.5 to 997.25; 10% of the span more on each side" in why["price"]
    for row in ROWS:
        schema.event(row)


def test_a_compressed_file_is_read_as_it_is(tmp_path):
    path = write(tmp_path, "csv", ROWS)
    packed = tmp_path / "quotes.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert inferred(packed)[0] == inferred(path)[0]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_moments_with_a_zone_are_timestamps_and_others_are_text(tmp_path, kind):
    attribute, why = column(tmp_path, MOMENTS, kind)
    assert attribute == Timestamp.of("x", False, "2024-01-01T00:00:00Z", "2036-01-01T00:00:00Z")
    assert "whole years, and 10 more" in why
    for value in MOMENTS:
        attribute.key(value)
    assert isinstance(column(tmp_path, ["2024-03-01T00:00:00", "2024-03-02T00:00:00"], kind)[0], Text)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 100], Integer("x", False, 0, 110)),
        ([-7, -3], Integer("x", False, -8, -2)),
        ([-5, 5], Integer("x", False, -6, 6)),
        ([7, 7], Integer("x", False, 6, 8)),
        ([0, 0], Integer("x", False, 0, 1)),
        ([0.25, 0.5], Real("x", False, 0.22, 0.53)),
        ([1, 2.5], Real("x", False, 0.8, 2.7)),
        ([-0.001, -0.0005], Real("x", False, -0.00105, -0.00045)),
        ([2**60, 2**60 + 4], None),
        (["true", "False"], Boolean("x", False)),
        ([0, 1, 1, 0], Integer("x", False, 0, 2)),
        (["00501", "10001", "00501", "10001"], Category("x", False, ("00501", "10001"))),
        ([1, "n/a at all", 2], Text("x", False)),
    ],
)
def test_domains_are_a_little_wider_than_the_data(tmp_path, values, expected):
    attribute, _ = column(tmp_path, values)
    if expected is None:
        assert isinstance(attribute, Real)
        assert attribute.low <= 2**60 <= 2**60 + 4 <= attribute.high
    else:
        assert attribute == expected


def test_without_a_margin_the_domain_is_that_of_the_data(tmp_path):
    attribute, why = column(tmp_path, [3, 17], margin=0.0, max_categories=5)
    assert attribute == Integer("x", False, 3, 17)
    assert "span" not in why


def test_texts_are_a_category_if_they_are_few_and_come_again(tmp_path):
    few = [f"t{n % 5}" for n in range(10)]
    assert isinstance(column(tmp_path, few)[0], Category)
    assert isinstance(column(tmp_path, few[:9])[0], Text)
    attribute, why = column(tmp_path, [f"t{n % 6}" for n in range(60)])
    assert isinstance(attribute, Text)
    assert "more than 5 different texts" in why


def test_what_no_attribute_can_hold_is_left_out_and_it_is_said_why(tmp_path):
    rows = [
        {"a": 1, "list": [1], "mixed": 1, "none": None, "later": 1},
        {"a": 2, "list": [], "mixed": "x", "none": None, "later": 2},
    ]
    schema, why = inferred(write(tmp_path, "jsonl", rows))
    assert schema.names == ("a", "later")
    assert why["none"] == "left out: no row has a value"
    assert "no attribute holds values of the type list" in why["list"]
    assert "several types" in why["mixed"]


def test_numbers_in_one_block_and_texts_in_the_next_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(data_files, "CHUNK_ROWS", 2)
    attribute, why = column(tmp_path, [1, 2, "x", "y"], "jsonl")
    assert attribute is None
    assert "some rows have numbers and others texts" in why


def test_numbers_that_are_not_finite_are_no_values(tmp_path):
    attribute, why = column(tmp_path, [1.5, float("inf"), float("nan"), 2.5], "parquet")
    assert attribute == Real("x", True, 1.4, 2.6)
    assert "2 values are not finite" in why
    assert "missing in 2 of 4 rows" in why


def test_columns_get_names_that_attributes_can_have(tmp_path):
    path = tmp_path / "names.csv"
    path.write_text("a b,a_b,in,2nd,ok.too\n1,1,1,1,1\n")
    schema, why = inferred(path)
    assert schema.names == ("a_b", "a_b_2", "in_", "_2nd", "ok.too")
    assert "the column is called 'a b'" in why["a b"]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.xlsx", "", "ends in .csv"),
        ("a.csv", "", "has no header"),
        ("a.csv", "x,y\n", "no rows"),
        ("a.csv", "x,x\n1,2\n", "has two columns 'x'"),
        ("a.jsonl", "", "no rows"),
        ("a.jsonl", '{"x": 1}\n[1]\n', "line 2 is not a JSON object"),
        ("a.csv", "x,y\n1,2\n1\n", "line 3 has 1 values, and there are 2 columns"),
        ("a.jsonl", '{"x": []}\n', "no column can be an attribute: x: left out"),
        ("a.parquet", "x", "is not a readable Parquet file"),
    ],
)
def test_a_file_that_is_no_table_is_refused_in_one_line(tmp_path, name, text, reason):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(WorkloadError, match=reason) as refused:
        inferred(path)
    assert "\n" not in str(refused.value)
