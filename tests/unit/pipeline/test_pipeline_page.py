"""What docs/pipeline.md says of the lake: its tables and columns, and questions to them in DuckDB and pandas."""

import pytest

from pleroma.pipeline.lake.lake_tables import TABLES, EventColumns, event_table
from support.lake_answers import rows_of
from support.lake_page import LAKE_ON_THE_PAGE, blocks, column_rows, preparation, questions, section, table_rows
from support.small_lake import small_lake
from support.strategies import STOCK


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """What the programs of the page define, before the questions."""
    url = small_lake(str(tmp_path_factory.mktemp("lake"))).url
    defined = {}
    for word in ("VIEWS = ", "duckdb", "def table"):
        exec(preparation(word, url), defined)  # noqa: S102
    return defined


def test_the_page_lists_all_tables():
    assert table_rows() in section("The lake")


@pytest.mark.parametrize("name", TABLES)
def test_the_page_shows_the_columns_of(name):
    assert f"### `{name}`\n\n{column_rows(TABLES[name].columns)}\n" in section("The lake")


def test_the_page_shows_the_columns_of_events():
    own = event_table(STOCK).columns[: len(EventColumns._fields)]
    assert column_rows(own) in section("The lake")


def test_the_page_asks_something_of_each_table():
    asked = {each.section for each in questions()}
    assert asked == {f"`{name}`" for name in TABLES} | {"Events: `events/NAME`"}


@pytest.mark.parametrize("question", questions(), ids=lambda each: each.section)
def test_duckdb_and_pandas_give_the_same_answer_about(question, names):
    in_sql = names["database"].sql(question.sql).df()
    exec(question.pandas, names)  # noqa: S102
    assert list(in_sql.columns) == list(names["answer"].columns)
    assert rows_of(in_sql) == rows_of(names["answer"])
    assert len(in_sql) > 0


def test_our_own_python_is_asked_as_the_page_shows(names):
    exec(next(each.pandas for each in questions() if "moment" in each.pandas), names)  # noqa: S102
    (program,) = [each for each in blocks("python", section("The lake")) if "lake.plans" in each]
    exec(program.replace(LAKE_ON_THE_PAGE, names["LAKE"]), names)  # noqa: S102
    in_force = names["lake"].subscriptions("stock", at=names["moment"])
    assert [row.id for row in in_force] == names["answer"].id.tolist() == ["s1"]
