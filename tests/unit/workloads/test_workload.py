import json
import os
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pleroma.content import Category, Filter, Integer, Real, Schema, Text
from pleroma.content.batch import EventBatch
from pleroma.errors import WorkloadError
from pleroma.workloads import EXPRESSIVE, Workload, generate, generate_stock
from pleroma.workloads.workload import EVENTS_FILE, SUBSCRIPTIONS_FILE

SCHEMA = Schema(
    "mixed",
    (
        Integer("count", True, 0, 9),
        Real("level", True, -1.0, 1.0),
        Category("kind", True, ("a", "b")),
        Text("word", True),
    ),
)
MIXED = Workload(
    SCHEMA,
    EventBatch.from_columns(
        SCHEMA,
        {
            "count": [1, None, 9],
            "level": [None, 0.1, -1.0],
            "kind": ["b", "a", None],
            "word": ["wörd", None, ""],
        },
    ),
    (Filter.parse(SCHEMA, "count > 3 or not exists word"), Filter.nothing(SCHEMA), Filter.everything(SCHEMA)),
    {"from": "a test", "numbers": [1, 2.5, None]},
)


@pytest.fixture
def saved(tmp_path):
    MIXED.save(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "workload",
    [
        MIXED,
        generate(replace(EXPRESSIVE, subscriptions=50, events=200, correlation="random")),
        generate(replace(EXPRESSIVE, subscriptions=0, events=0)),
        generate_stock(),
    ],
    ids=["mixed", "synthetic", "empty", "stock"],
)
def test_a_workload_comes_back_from_its_files_as_it_was(workload, tmp_path):
    workload.save(tmp_path / "new" / "folder")
    assert Workload.load(tmp_path / "new" / "folder") == workload


def test_files_hold_values_that_any_reader_of_parquet_understands(saved):
    assert pq.read_table(saved / EVENTS_FILE).to_pydict() == {
        "count": [1, None, 9],
        "level": [None, 0.1, -1.0],
        "kind": ["b", "a", None],
        "word": ["wörd", None, ""],
    }
    subscriptions = pq.read_table(saved / SUBSCRIPTIONS_FILE).to_pydict()
    assert subscriptions["id"] == [0, 1, 2]
    assert [json.loads(text) for text in subscriptions["filter"]][1:] == [[], [{}]]


def test_the_same_workload_makes_the_same_bytes(tmp_path):
    model = replace(EXPRESSIVE, subscriptions=20, events=50)
    for name in ("one", "two"):
        generate(model).save(tmp_path / name)
    for name in (EVENTS_FILE, SUBSCRIPTIONS_FILE):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_saving_leaves_nothing_but_the_two_files(saved):
    assert sorted(os.listdir(saved)) == [EVENTS_FILE, SUBSCRIPTIONS_FILE]


def test_a_write_that_fails_leaves_the_older_workload_whole(saved, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(WorkloadError, match="No space left"):
        generate(replace(EXPRESSIVE, subscriptions=5, events=5)).save(saved)
    monkeypatch.undo()
    assert Workload.load(saved) == MIXED
    assert sorted(os.listdir(saved)) == [EVENTS_FILE, SUBSCRIPTIONS_FILE]


def test_a_workload_replaces_a_workload(saved):
    other = generate(replace(EXPRESSIVE, subscriptions=5, events=5))
    other.save(saved)
    assert Workload.load(saved) == other


def test_what_an_interrupted_write_left_behind_does_not_stop_the_next(tmp_path):
    (tmp_path / f".{EVENTS_FILE}.unfinished").write_bytes(b"half")
    MIXED.save(tmp_path)
    assert Workload.load(tmp_path) == MIXED


def test_a_folder_of_other_things_is_not_written_to(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(WorkloadError, match="not empty") as caught:
        MIXED.save(tmp_path)
    assert caught.value.field == str(tmp_path)
    assert os.listdir(tmp_path) == ["thesis.txt"]


def test_parquet_files_of_others_are_not_overwritten(tmp_path):
    for name in (EVENTS_FILE, SUBSCRIPTIONS_FILE):
        pq.write_table(pa.table({"a": [1]}), tmp_path / name)
    with pytest.raises(WorkloadError, match="not empty"):
        MIXED.save(tmp_path)
    assert pq.read_table(tmp_path / EVENTS_FILE).to_pydict() == {"a": [1]}


def test_a_file_is_not_a_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkloadError, match="is a file"):
        MIXED.save(tmp_path / "file")
    with pytest.raises(WorkloadError, match="cannot be written"):
        MIXED.save(tmp_path / "file" / "below")
    with pytest.raises(WorkloadError, match="no such folder"):
        Workload.load(tmp_path / "file")


def test_parts_of_different_schemas_do_not_make_a_workload():
    other = Schema("other", (Integer("a", False, 0, 1),))
    with pytest.raises(WorkloadError, match="'other'"):
        Workload(SCHEMA, MIXED.events, (Filter.everything(other),))


def rewritten(path, change):
    """The file with its table, and the label beside it, changed."""
    table = pq.read_table(path)
    label = dict(table.schema.metadata)
    table = change(table, label)
    pq.write_table(table.replace_schema_metadata(label), path)


def relabelled(text):
    def change(table, label):
        label[b"pleroma.workload"] = text
        return table

    return change


def of_other_values(column, values):
    def change(table, _):
        return table.set_column(table.column_names.index(column), column, pa.array(values))

    return change


def missing(path):
    path.unlink()


def truncated(path):
    path.write_bytes(path.read_bytes()[:-20])


def foreign(path):
    path.write_text("id,filter\n1,2\n")


def unlabelled(path):
    pq.write_table(pa.table({"a": [1]}), path)


@pytest.mark.parametrize("name", [EVENTS_FILE, SUBSCRIPTIONS_FILE])
@pytest.mark.parametrize("damage", [missing, truncated, foreign, unlabelled])
def test_a_damaged_foreign_or_missing_file_gets_one_clear_error(saved, name, damage):
    damage(saved / name)
    with pytest.raises(WorkloadError) as caught:
        Workload.load(saved)
    assert caught.value.field == str(saved / name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [EVENTS_FILE, SUBSCRIPTIONS_FILE])
def test_a_flipped_bit_is_noticed_unless_it_changes_nothing(saved, name):
    content = (saved / name).read_bytes()
    noticed = 0
    for place in range(0, len(content), 5):
        (saved / name).write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        try:
            assert Workload.load(saved) == MIXED
        except WorkloadError:
            noticed += 1
    assert noticed > len(content) / 10


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        (EVENTS_FILE, relabelled(b"{"), "label is damaged"),
        (EVENTS_FILE, relabelled(b"[" * 100_000), "label is damaged"),
        (EVENTS_FILE, relabelled(b"[]"), "label is damaged"),
        (EVENTS_FILE, relabelled(b'{"schema": {}, "description": {}}'), "different workloads"),
        (EVENTS_FILE, of_other_values("count", [1, 10, 3]), "count: row 1: 10 is outside [0, 9]"),
        (EVENTS_FILE, of_other_values("count", ["1", "2", "3"]), "count: row 0: '1' is not integer"),
        (EVENTS_FILE, of_other_values("count", [True, False, True]), "count: row 0: True is not integer"),
        (EVENTS_FILE, of_other_values("count", [[1], [2], [3]]), "count: row 0: [1] is not integer"),
        (EVENTS_FILE, of_other_values("level", [0.0, 2.0, 0.0]), "level: row 1: 2.0 is outside [-1, 1]"),
        (EVENTS_FILE, of_other_values("kind", ["a", "b", "c"]), "kind: row 2: unknown category 'c'"),
        (
            EVENTS_FILE,
            lambda table, _: table.rename_columns(["count", "level", "kind", "other"]),
            "unknown attribute 'other'",
        ),
        (SUBSCRIPTIONS_FILE, lambda table, _: table.drop_columns(["id"]), "an id and a filter"),
        (SUBSCRIPTIONS_FILE, of_other_values("filter", ["[]", "[", "[]"]), "filter: row 1: "),
        (SUBSCRIPTIONS_FILE, of_other_values("filter", ["[]", None, "[]"]), "filter: row 1: "),
        (
            SUBSCRIPTIONS_FILE,
            of_other_values("filter", ["[]", "[]", '[{"colour": {"==": 1}}]']),
            "filter: row 2: unknown",
        ),
        (
            SUBSCRIPTIONS_FILE,
            of_other_values("filter", ['[{"count": {"==": 10}}]', "[]", "[]"]),
            "filter: row 0: count: 10",
        ),
    ],
)
def test_values_that_do_not_fit_are_named_with_file_and_row(saved, name, change, words):
    rewritten(saved / name, change)
    with pytest.raises(WorkloadError) as caught:
        Workload.load(saved)
    assert str(saved) in str(caught.value)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bad_schema_in_both_labels_is_named(saved):
    for name in (EVENTS_FILE, SUBSCRIPTIONS_FILE):
        rewritten(saved / name, relabelled(b'{"schema": {"name": "x", "attribute": 5}, "description": {}}'))
    with pytest.raises(WorkloadError, match="lists its attributes"):
        Workload.load(saved)


def test_whole_numbers_beside_nothing_keep_every_digit(tmp_path):
    schema = Schema("s", (Integer("a", True, 0, 2**53 - 1),))
    events = EventBatch.from_columns(schema, {"a": [2**53 - 1, None, 2**53 - 2]})
    Workload(schema, events, ()).save(tmp_path)
    assert Workload.load(tmp_path).events == events
    assert np.array_equal(Workload.load(tmp_path).events.columns[0], [2**53 - 1, -1, 2**53 - 2])
