"""Timestamps: moments with a zone, exact to the microsecond, and nothing that could be two moments."""

from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from pleroma.content import Filter, Schema, Timestamp
from pleroma.content.arrow_columns import from_columns, to_columns
from pleroma.content.batch import EventBatch
from pleroma.content.filter_json import to_json
from pleroma.errors import ContentError, DomainError, SchemaError

START, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2035, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
AT = Timestamp.of("at", False, START, END)
SCHEMA = Schema("alarm", (AT, Timestamp.of("until", True, START, "2036-01-01T00:00:00+01:00")))
NINE = datetime(2026, 11, 16, 21, tzinfo=UTC)
INDIA = timezone(timedelta(hours=5, minutes=30))


def test_one_moment_has_one_key_however_it_is_written():
    texts = ("2026-11-16T21:00:00Z", "2026-11-16T22:00:00+01:00", "2026-11-16 21:00Z", "20261116T210000Z")
    assert {AT.key(each) for each in (NINE, NINE.astimezone(INDIA), *texts)} == {AT.key(NINE)}
    assert AT.value(AT.key("2026-11-17T02:30:00.000001+05:30")) == NINE + timedelta(microseconds=1)
    assert AT.value(AT.key(NINE.astimezone(INDIA))).tzinfo is UTC


def test_an_event_gives_back_datetimes_and_its_json_texts():
    event = SCHEMA.event(at=NINE)
    assert (event["at"], event.get("until")) == (NINE, None)
    assert event.to_json() == {"at": "2026-11-16T21:00:00Z"}
    assert SCHEMA.event(event.to_json()) == event


@pytest.mark.parametrize("naive", [datetime(2026, 11, 16), "2026-11-16T21:00:00", "2026-11-16"])
def test_a_moment_without_a_zone_is_refused_in_one_line(naive):
    with pytest.raises(DomainError, match=r"^at: '2026-11-16.*' has no time zone; add Z for UTC, or an offset such as"):
        SCHEMA.event(at=naive)
    with pytest.raises(ContentError, match=r"has no time zone"):
        Filter.where(SCHEMA, 0, AT.select(">=", naive))
    with pytest.raises(SchemaError, match="has no time zone"):
        Timestamp.of("at", False, naive, END)


@pytest.mark.parametrize(
    "value", [5, 5.0, True, "yesterday", "2026-11-16T25:00:00Z", b"2026", date(2026, 11, 16), [NINE]]
)
def test_what_is_no_moment_is_refused(value):
    with pytest.raises(DomainError, match=r"^at: .* is not timestamp; write it as 2026-11-16T21:00:00Z$"):
        AT.key(value)


def test_a_moment_outside_the_domain_is_refused_and_so_are_domains_that_doubles_cannot_tell_apart():
    for moment in (START - AT_STEP, END + AT_STEP, datetime.min.replace(tzinfo=INDIA), "9999-12-31T23:59:59-05:00"):
        with pytest.raises(DomainError, match=r"is outside \[2026-01-01T00:00:00Z, 2035-12-31T23:59:59\.999999Z\]$"):
            AT.key(moment)
    with pytest.raises(SchemaError, match=r"^at: the bounds of timestamps lie from 1684-.* to 2255-06-05T"):
        Timestamp.of("at", False, START, "2256-01-01T00:00:00Z")
    with pytest.raises(SchemaError, match="is empty"):
        Timestamp.of("at", False, END, START)


AT_STEP = timedelta(microseconds=1)


def test_neighbours_have_different_keys_and_coordinates_even_at_the_ends_of_the_widest_domain():
    far = Timestamp("at", False, 1 - 2**53, 2**53 - 1)
    for first in (far.low, -1, far.high - 2):
        coordinates = [far.coordinate(far.key(far.value(first + step))) for step in range(3)]
        assert all(before < after for before, after in pairwise(coordinates))


def test_a_schema_file_has_bounds_as_toml_moments_or_as_texts(tmp_path):
    written = 'name = "s"\n[[attribute]]\nname = "at"\nkind = "timestamp"\nmin = {}\nbelow = {}\n'
    loaded = []
    for quote in ("", '"'):
        (tmp_path / "s.toml").write_text(
            written.format(f"{quote}2026-01-01T00:00:00Z{quote}", f"{quote}2036-01-01T01:00:00+01:00{quote}")
        )
        loaded.append(Schema.load(tmp_path / "s.toml"))
    assert loaded[0] == loaded[1] == Schema("s", (AT,))
    (tmp_path / "s.toml").write_text(written.format("2026-01-01", "2036-01-01T00:00:00Z"))
    with pytest.raises(SchemaError, match=r"^at: datetime\.date\(2026, 1, 1\) is not timestamp"):
        Schema.load(tmp_path / "s.toml")


def test_a_filter_is_printed_with_moments_and_points_at_one_that_is_wrong():
    wanted = Filter.parse(SCHEMA, "at >= '2026-11-16T22:00:00+01:00' and not exists until")
    assert str(wanted) == "at >= '2026-11-16T21:00:00Z' and not exists until"
    assert to_json(wanted) == [{"at": {">=": "2026-11-16T21:00:00Z"}, "until": {"exists": False}}]
    assert [wanted.matches(SCHEMA.event(at=NINE - step * AT_STEP)) for step in (-1, 0, 1)] == [True, True, False]
    with pytest.raises(ContentError, match=r"^at 8: at: '2026-11-16' has no time zone"):
        Filter.parse(SCHEMA, "at  <  '2026-11-16'")


def test_columns_of_numpy_and_arrow_are_read_in_utc_and_those_without_a_zone_are_refused():
    expected = EventBatch.from_events(SCHEMA, [SCHEMA.event(at=NINE), SCHEMA.event(at=NINE, until=NINE)])
    numpy = np.array(["2026-11-16T21:00", "2026-11-16T21:00"], "datetime64[ns]")
    until = np.array(["NaT", "2026-11-16T21:00"], "datetime64[s]")
    assert EventBatch.from_columns(SCHEMA, {"at": numpy, "until": until}) == expected
    columns = to_columns(expected)
    assert columns["until"].to_pylist() == [None, NINE]
    assert from_columns(SCHEMA, columns) == expected
    elsewhere = {name: each.cast(pa.timestamp("ns", "Asia/Kolkata")) for name, each in columns.items()}
    assert from_columns(SCHEMA, elsewhere) == expected
    with pytest.raises(ContentError, match=r"^at: row 0: '2026-11-16 21:00:00' has no time zone"):
        from_columns(SCHEMA, {"at": columns["at"].cast(pa.timestamp("ns"))})
    late = numpy.astype("datetime64[s]") + np.array([0, 3600 * 24 * 365 * 50])
    with pytest.raises(ContentError, match=r"^at: row 1: '2076-.*' is outside"):
        EventBatch.from_columns(SCHEMA, {"at": late})
    with pytest.raises(ContentError, match=r"^at: row 1: a value is required"):
        EventBatch.from_columns(SCHEMA, {"at": until[::-1]})
    with pytest.raises(ContentError, match="is not timestamp"):
        EventBatch.from_columns(SCHEMA, {"at": np.array([AT.key(NINE)])})
