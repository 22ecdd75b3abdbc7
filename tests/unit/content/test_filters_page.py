"""What docs/filters.md promises."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from pleroma.content import Filter, Schema
from pleroma.content.filter_json import from_json, to_json
from pleroma.content.language import MAX_TEXT
from pleroma.content.work_budget import MAX_BOXES
from pleroma.errors import ContentError
from support.strategies import STOCK

PAGE = (Path(__file__).parents[3] / "docs" / "filters.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", [line for block in blocks("filter") for line in block.splitlines()])
def test_each_example_is_a_filter(text):
    assert Filter.parse(STOCK, text)


ALARM = Schema.from_json(tomllib.loads(blocks("toml")[0]))


@pytest.mark.parametrize("text", [line for block in blocks("alarm") for line in block.splitlines()])
def test_each_example_of_truth_values_and_moments_is_a_filter(text):
    wanted = Filter.parse(ALARM, text)
    assert wanted
    assert Filter.parse(ALARM, str(wanted)) == wanted


@pytest.mark.parametrize("text", blocks("json"))
def test_each_json_example_is_a_filter(text):
    wanted = from_json(STOCK, json.loads(text))
    assert from_json(STOCK, to_json(wanted)) == wanted


@pytest.mark.parametrize("pair", [pair for block in blocks("errors") for pair in block.strip().split("\n\n")])
def test_each_error_reads_as_shown(pair):
    text, line = pair.splitlines()
    with pytest.raises(ContentError) as refused:
        Filter.parse(STOCK, text)
    assert str(refused.value) == line


def test_the_table_of_absent_values_is_right():
    rows = re.findall(r"^\| `(.*market.*)` \|(.*)\|(.*)\|(.*)\|$", PAGE, re.MULTILINE)
    assert len(rows) == 5
    events = [STOCK.event(price=1, volume=1, ticker="", market=market) for market in ("lse", "nyse", None)]
    for text, *cells in rows:
        assert [Filter.parse(STOCK, text).matches(event) for event in events] == ["yes" in cell for cell in cells], text


def test_the_table_of_kinds_is_right():
    for attribute in (*STOCK.attributes, *ALARM.attributes):
        (row,) = re.findall(rf"^\| {attribute.kind} \|(.*?)\|(.*?)\|(.*?)\|", PAGE, re.MULTILINE)
        supported = ["==" in attribute.operators, "between" in attribute.operators, "startswith" in attribute.operators]
        assert ["yes" in cell for cell in row] == supported


def test_the_python_example_runs_as_it_says(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[3])
    (code,) = blocks("python")
    *statements, last = code.strip().splitlines()
    names: dict = {}
    exec("\n".join(statements), names)  # noqa: S102
    assert eval(last, names) is True  # noqa: S307


def test_the_limits_are_those_in_force():
    assert f"{MAX_TEXT:,} characters" in PAGE
    assert f"{MAX_BOXES} boxes" in PAGE
