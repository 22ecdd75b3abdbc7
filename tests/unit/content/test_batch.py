import subprocess
import sys

import numpy as np
import pytest

from pleroma.content import Category, Filter, Integer, Real, Schema, Text
from pleroma.content.batch import EventBatch
from pleroma.errors import ContentError, DomainError, UnknownName

SCHEMA = Schema(
    "quotes",
    (
        Real("price", False, 0.0, 1000.0),
        Integer("volume", True, 0, 1023),
        Category("market", True, ("xetra", "lse", "nyse")),
        Text("ticker", False),
    ),
)
COLUMNS = {
    "price": [1.5, 20, 300.0, 4.0],
    "volume": [7, None, 0, 1023],
    "market": ["lse", "xetra", None, "nyse"],
    "ticker": ["AAPL", "IBM", "AAPL", "Ünïcode"],
}


@pytest.fixture
def batch():
    return EventBatch.from_columns(SCHEMA, COLUMNS)


def test_columns_hold_keys_of_the_natural_types(batch):
    assert [column.dtype for column in batch.columns] == [np.float64, np.int64, np.int64, object]
    assert batch.columns[1].tolist() == [7, -1, 0, 1023]
    assert batch.columns[2].tolist() == [1, 0, -1, 2]
    assert batch.columns[3].tolist() == ["AAPL", "IBM", "AAPL", "Ünïcode"]


def test_an_event_of_a_batch_is_the_event_a_schema_would_make(batch):
    assert batch.event(1) == SCHEMA.event(price=20, market="xetra", ticker="IBM")
    assert batch.event(-1) == SCHEMA.event(price=4, volume=1023, market="nyse", ticker="Ünïcode")


def test_matching_is_exact_for_every_kind(batch):
    def rows(text):
        return np.flatnonzero(batch.matches(Filter.parse(SCHEMA, text))).tolist()

    assert rows("price > 4") == [1, 2]
    assert rows("price >= 4.0") == [1, 2, 3]
    assert rows("ticker = 'AAPL' and price < 100") == [0]
    assert rows("ticker > 'AAPL'") == [1, 3]
    assert rows("ticker startswith 'Ü'") == [3]
    assert rows("not exists volume or market = 'nyse'") == [1, 3]
    assert rows("market in ('lse', 'nyse')") == [0, 3]
    assert rows("true") == [0, 1, 2, 3]
    assert rows("false") == []


def test_batches_are_equal_when_their_events_are(batch):
    assert batch == EventBatch.from_columns(SCHEMA, COLUMNS)
    assert batch == EventBatch.from_events(SCHEMA, list(batch))
    assert batch != batch[::-1]
    assert batch != batch[:2]
    assert batch != list(batch)


def test_a_column_of_an_optional_attribute_may_be_left_out():
    batch = EventBatch.from_columns(SCHEMA, {"price": [1.0], "ticker": ["A"]})
    assert batch.event(0) == SCHEMA.event(price=1, ticker="A")


def test_an_empty_batch_is_a_batch(batch):
    empty = EventBatch.from_columns(SCHEMA, {"price": [], "ticker": []})
    assert len(empty) == 0
    assert list(empty) == []
    assert empty.points().shape == (0, 4)
    assert empty.matches(Filter.everything(SCHEMA)).tolist() == []
    assert batch[[]] == empty == EventBatch.from_events(SCHEMA, [])


def test_a_batch_cannot_be_written_to_and_does_not_follow_the_array_it_came_from():
    prices = np.array([1.0, 2.0])
    batch = EventBatch.from_columns(SCHEMA, {"price": prices, "ticker": ["A", "B"]})
    prices[0] = 9.0
    assert batch.event(0)["price"] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        batch.columns[0][0] = 5.0
    with pytest.raises(ValueError, match="read-only"):
        batch[[0, 1]].columns[0][0] = 5.0


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "float16", "float32", "float64"])
def test_numbers_of_every_width_are_taken(dtype):
    batch = EventBatch.from_columns(
        SCHEMA, {"price": np.array([1, 100], dtype), "volume": np.array([3, 4], dtype), "ticker": ["A", "B"]}
    )
    assert [event["volume"] for event in batch] == [3, 4]
    assert [event["price"] for event in batch] == [1.0, 100.0]


def test_bounds_are_not_rounded_to_the_width_of_an_array():
    schema = Schema("s", (Integer("a", False, 0, 2**24 - 1),))
    with pytest.raises(DomainError, match="16777216"):
        EventBatch.from_columns(schema, {"a": np.array([2**24], np.float32)})


def test_minus_zero_is_zero():
    schema = Schema("s", (Real("a", False, -1.0, 1.0),))
    assert str(EventBatch.from_columns(schema, {"a": np.array([-0.0])}).columns[0][0]) == "0.0"


GOOD = {"price": [1.0, 2.0], "ticker": ["A", "B"]}


@pytest.mark.parametrize(
    ("columns", "error", "field", "words"),
    [
        ({"price": [1.0, 1001]}, DomainError, "price", ["row 1", "1001", "[0, 1000]"]),
        ({"price": np.array([1.0, -np.inf])}, DomainError, "price", ["row 1", "-inf"]),
        ({"price": np.array([np.nan, 1.0])}, DomainError, "price", ["row 0", "nan"]),
        ({"price": [None, 1.0]}, DomainError, "price", ["row 0", "required"]),
        ({"price": [1.0, True]}, DomainError, "price", ["row 1", "True is not real"]),
        ({"price": np.array([True, False])}, DomainError, "price", ["row 0", "True is not real"]),
        ({"price": ["1", 1]}, DomainError, "price", ["row 0", "'1' is not real"]),
        ({"price": np.array(["1", "2"])}, DomainError, "price", ["row 0", "'1' is not real"]),
        ({"price": np.array(["2020-01-01"] * 2, "M8[D]")}, DomainError, "price", ["row 0", "is not real"]),
        ({"volume": [1, 1.5]}, DomainError, "volume", ["row 1", "1.5 is not integer"]),
        ({"volume": [1, 10**30]}, DomainError, "volume", ["row 1", "outside"]),
        ({"volume": np.array([2**64 - 1, 0], np.uint64)}, DomainError, "volume", ["row 0", "18446744073709551615"]),
        ({"market": ["nyse", "nise"]}, UnknownName, "market", ["row 1", "'nise'", "did you mean 'nyse'"]),
        ({"market": [["nyse"], "lse"]}, DomainError, "market", ["row 0", "is not category"]),
        ({"ticker": ["A", 5]}, DomainError, "ticker", ["row 1", "5 is not text"]),
        ({"ticker": ["A", "\ud800"]}, DomainError, "ticker", ["row 1"]),
        ({"ticker": "AB"}, ContentError, "ticker", ["one list"]),
        ({"ticker": 5}, ContentError, "ticker", ["one list"]),
        ({"ticker": np.array([["A"], ["B"]])}, ContentError, "ticker", ["one list"]),
        ({"volume": [1, 2, 3]}, ContentError, "volume", ["3 values where price has 2"]),
        ({"colour": [1, 2]}, UnknownName, None, ["'colour'"]),
    ],
)
def test_a_bad_column_gets_one_clear_error(columns, error, field, words):
    with pytest.raises(error) as caught:
        EventBatch.from_columns(SCHEMA, GOOD | columns)
    assert caught.value.field == field
    for word in words:
        assert word in str(caught.value)


def test_a_missing_column_is_named():
    with pytest.raises(ContentError, match="ticker: the column is missing"):
        EventBatch.from_columns(SCHEMA, {"price": [1.0]})


def test_events_and_filters_of_another_schema_are_refused(batch):
    other = Schema("other", (Integer("a", False, 0, 1),))
    with pytest.raises(ContentError, match="'other'"):
        EventBatch.from_events(SCHEMA, [other.event(a=1)])
    with pytest.raises(ContentError, match="'other'"):
        batch.matches(Filter.everything(other))


def test_raw_keys_must_have_the_right_shape_and_type():
    schema = Schema("s", (Integer("a", False, 0, 9), Integer("b", False, 0, 9)))
    ones = np.ones(3, np.int64)
    with pytest.raises(ContentError, match="1 columns for 2 attributes"):
        EventBatch(schema, (ones,))
    with pytest.raises(ContentError, match="b: keys are 3 int64"):
        EventBatch(schema, (ones, np.ones(2, np.int64)))
    with pytest.raises(ContentError, match="b: keys are 3 int64, not float64"):
        EventBatch(schema, (ones, np.ones(3)))


def test_one_row_is_asked_for_by_name(batch):
    with pytest.raises(TypeError, match="event"):
        batch[1]


def test_content_itself_does_without_numpy():
    code = "import sys, pleroma.content, pleroma.content.filter_json; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
