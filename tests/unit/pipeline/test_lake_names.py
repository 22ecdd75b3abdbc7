"""Whatever a schema or a folder is called, what is landed is found again, or there is one clear error."""

from datetime import UTC, datetime

import pytest

from pleroma.content import Integer, Schema
from pleroma.content.batch import EventBatch
from pleroma.errors import LakeError
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.lake_query import LakeQuery
from pleroma.pipeline.lake.landed import ReportedCounters, ReportRow

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize("name", ["a b/c=d", "ü%41", "_x", "..", "a~20b", "[x]^|\\", "'\"`", "x\ny", "a#b?c:d*{e}"])
def test_a_schema_may_have_any_name(tmp_path, name):
    lake = Lake.at(str(tmp_path / "a lake #1? {*}"))
    schema = Schema(name, (Integer("n", False, 0, 9),))
    lake.land_schema(schema)
    lake.land_events(EventBatch.from_columns(schema, {"n": [1, 2]}), [NOON, NOON], 1, 1.0)
    lake.land_reports([ReportedCounters(name, NOON, (ReportRow("s1", "me", 9),))])
    assert lake.schemas() == [name]
    assert len(lake.events(name)) == 2
    (reading,) = LakeQuery(lake.url, name, "reports").readings()
    assert [batch.to_pylist()[0]["schema"] for batch in reading.batches()] == [name]
    assert lake.refused() == []


@pytest.mark.parametrize(("letter", "longest"), [("x", 248), ("ü", 41), (" ", 82)])
def test_a_name_is_too_long_in_one_line_and_stops_no_other_schema(tmp_path, letter, longest):
    lake = Lake.at(str(tmp_path / "lake"))
    well, long = (Schema(letter * count, (Integer("n", False, 0, 9),)) for count in (longest, longest + 1))
    lake.land_schema(well)
    with pytest.raises(LakeError, match="this name of a schema is too long for a folder"):
        lake.land_schema(long)
    assert lake.schemas() == [well.name]
    assert lake.land_events(EventBatch.from_columns(well, {"n": [1]}), [NOON], 1, 1.0) == 1
    assert lake.land_subscriptions(well.name, NOON, [("s1", "me", "h1", "[{}]")]) == 1
    reported = [ReportedCounters(each.name, NOON, (ReportRow("s1", "me", 9),)) for each in (long, well)]
    assert lake.land_reports(reported) == 1


def test_schemas_with_names_alike_have_tables_of_their_own():
    from pleroma.pipeline.lake.lake_tables import quoted

    names = ["a b", "a~20b", "a%20b", "a~7E20b", "_a", "~5Fa", ".a"]
    assert len({quoted(name) for name in names}) == len(names)
    assert all(quoted(name)[0] not in "._" for name in names)


@pytest.mark.parametrize("folder", ["50%25", "[x]", "a^b", "a|b", "a\\b"])
def test_a_folder_that_the_library_would_not_find_again_is_refused(tmp_path, folder):
    with pytest.raises(LakeError, match="the path of a lake has no"):
        Lake.at(str(tmp_path / folder))
