"""The log's statistics leave out files, and never one that has a row that is asked for."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from pleroma.content.arrow_columns import MOMENT_TYPE
from pleroma.pipeline.lake.lake_table import LakeTable
from pleroma.pipeline.lake.lake_tables import TableColumn, TableDefinition
from pleroma.pipeline.lake.table_files import Condition, files_in, sql
from support.table_rows import append

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
DEFINITION = TableDefinition(
    "t",
    (
        TableColumn("hour", pa.string(), ""),
        TableColumn("n", pa.int64(), ""),
        TableColumn("at", MOMENT_TYPE, ""),
        TableColumn("word", pa.string(), ""),
    ),
    ("hour",),
)
hours, numbers = st.sampled_from(["a", "b", "it's"]), st.integers(-3, 3)
moments = st.integers(-4, 4).map(lambda count: NOON + count * timedelta(microseconds=400))
words = st.sampled_from(["", "x", "x" * 40, "x" * 40 + "y", "z"])
values = {"hour": hours, "n": numbers, "at": moments, "word": words}
rows = st.fixed_dictionaries({"hour": hours, **{name: st.none() | values[name] for name in ("n", "at", "word")}})


@st.composite
def conditions(draw):
    name = draw(st.sampled_from(sorted(values)))
    if draw(st.integers(0, 4)) == 0:
        return Condition(name, "in", tuple(draw(st.lists(values[name], max_size=2))))
    return Condition(name, draw(st.sampled_from(["==", "<", "<=", ">", ">="])), draw(values[name]))


def shown(row):
    return repr([row[name] for name in DEFINITION.schema.names])


def satisfies(row, condition):
    found, value = row[condition.column], condition.value
    if found is None:
        return False
    return {
        "==": lambda: found == value,
        "<": lambda: found < value,
        "<=": lambda: found <= value,
        ">": lambda: found > value,
        ">=": lambda: found >= value,
        "in": lambda: found in value,
    }[condition.comparison]()


@settings(max_examples=30)
@given(st.lists(st.lists(rows, min_size=1, max_size=3), max_size=4), st.lists(conditions(), max_size=3))
def test_the_rows_that_are_read_are_those_one_finds_by_hand(tmp_path_factory, landings, asked):
    table = LakeTable(str(tmp_path_factory.mktemp("lake")), DEFINITION)
    for landing in landings:
        append(table, pa.Table.from_pylist(landing, schema=DEFINITION.schema))
    everything = [row for landing in landings for row in landing]
    wanted = [row for row in everything if all(satisfies(row, each) for each in asked)]
    found = table.rows(asked).to_pylist()
    assert sorted(found, key=shown) == sorted(wanted, key=shown)
    if asked and landings and all(each.value != () for each in asked):
        assert table.delete(asked) == len(wanted), sql(asked)
        left = [row for row in everything if row not in wanted]
        assert sorted(table.rows().to_pylist(), key=shown) == sorted(left, key=shown)


def listed(least, most, hour="a"):
    """A file as the log lists it, with moments cut to milliseconds."""
    cut = [each.replace(microsecond=each.microsecond // 1000 * 1000) for each in (least, most)]
    return {"path": "f", "size_bytes": 1, "num_records": 2, "partition.hour": hour, "min.at": cut[0], "max.at": cut[1]}


@given(st.lists(st.tuples(moments, moments), max_size=4), st.sampled_from(["==", "<", "<=", ">", ">=", "in"]), moments)
def test_files_without_such_rows_are_left_out_to_the_millisecond(spans, comparison, value):
    spans = [tuple(sorted(each)) for each in spans]
    kinds = pa.schema(
        [
            *(("path", pa.string()), ("size_bytes", pa.int64()), ("num_records", pa.int64())),
            *(("partition.hour", pa.string()), ("min.at", MOMENT_TYPE), ("max.at", MOMENT_TYPE)),
        ]
    )
    given_value = (value,) if comparison == "in" else value
    for least, most in spans:
        actions = pa.Table.from_pylist([listed(least, most)], schema=kinds)
        is_kept = bool(list(files_in(actions, ["hour"], [Condition("at", comparison, given_value)])))
        inside = {
            "==": least <= value <= most,
            "in": least <= value <= most,
            "<": least < value,
            "<=": least <= value,
            ">": most > value,
            ">=": most >= value,
        }[comparison]
        assert is_kept or not inside
        slack = timedelta(milliseconds=2)
        surely_outside = value < least - slack if comparison in ("==", "in", "<", "<=") else value > most + slack
        assert not (is_kept and surely_outside)


def test_a_file_without_statistics_is_never_left_out():
    row = {"path": "f", "size_bytes": 1, "num_records": 2, "partition.hour": "a", "min.n": None, "max.n": None}
    actions = pa.Table.from_pylist([row, row | {"min.n": 3, "max.n": 5}])
    for condition, kept in ((Condition("n", ">", 7), 1), (Condition("n", "in", (4,)), 2), (Condition("n", "<", 3), 1)):
        assert len(list(files_in(actions, ["hour"], [condition]))) == kept
    assert len(list(files_in(actions, ["hour"], [Condition("other", ">", 7)]))) == 2
