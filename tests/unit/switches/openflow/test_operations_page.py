"""What docs/operations.md says of rules and states is what the code has."""

import re
from pathlib import Path
from typing import get_args

from pleroma.switches.openflow import tables
from pleroma.switches.openflow.agent import State, SwitchTimeouts

PAGE = (Path(__file__).parents[4] / "docs" / "operations.md").read_text(encoding="utf-8")


def rows(text):
    return [line for line in text.splitlines() if line.startswith("|")]


def test_the_table_of_rules_is_that_of_the_code():
    table = rows(tables.__doc__)
    assert len(table) > 5
    assert "\n".join(table) in PAGE


def test_the_states_are_those_of_a_switch():
    section = PAGE.split("## The states of a switch")[1].split("\n## ")[0]
    said = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert set(said) == {*get_args(State), "gone"}


def test_cookie_and_timeouts_are_as_it_says():
    assert f"{tables.COOKIE:#018x}" in PAGE
    assert f"{tables.COOKIE_MASK:#018x}" in PAGE
    usual = SwitchTimeouts()
    assert f"`grace` ({usual.grace:.0f} s)" in PAGE
    assert f"within {usual.answer:.0f} s" in PAGE
    assert f"every {usual.audit:.0f} s" in PAGE
    assert f"`away` after {usual.dead:.0f} s, `gone` after {usual.dead + usual.grace:.0f}" in PAGE
