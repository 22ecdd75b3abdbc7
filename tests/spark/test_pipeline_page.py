"""The questions of docs/pipeline.md, asked in Spark: the answers are those of pandas."""

import pytest

from support.lake_answers import rows_of
from support.lake_page import blocks, preparation, questions, section
from support.small_lake import BEGIN, small_lake


@pytest.fixture(scope="module")
def names(spark, tmp_path_factory):
    """What the programs of the page define, before the questions."""
    url = small_lake(str(tmp_path_factory.mktemp("lake"))).url
    defined = {"spark": spark}
    zone = spark.conf.get("spark.sql.session.timeZone")
    for word in ("VIEWS = ", "register(spark)", "def table"):
        exec(preparation(word, url), defined)  # noqa: S102
    yield defined
    spark.conf.set("spark.sql.session.timeZone", zone)


@pytest.mark.parametrize("question", questions(), ids=lambda each: each.section)
def test_spark_and_pandas_give_the_same_answer_about(question, names):
    in_sql = names["spark"].sql(question.sql).toPandas()
    exec(question.pandas, names)  # noqa: S102
    assert list(in_sql.columns) == list(names["answer"].columns)
    assert rows_of(in_sql) == rows_of(names["answer"])


def test_events_are_read_as_the_page_shows(names, capsys):
    names["moment"] = BEGIN
    for program in blocks("python", section("Reading with Spark")):
        exec(program, names)  # noqa: S102
    assert "|   IBM|   20|" in capsys.readouterr().out
    assert names["events"].count() == names["fast"].count() == 40
