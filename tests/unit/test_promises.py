"""docs/security.md and docs/guarantees.md: every promise names tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLES = {"test", "tests"}
"""The last column of a table of promises."""


def promises(page):
    """By promise, its tests as (file, name).

    A test is a link to its file, or a path. A name without a file is in the file of the test before it; a file without
    a name stands for all of its tests.
    """
    found, is_table = {}, False
    for line in (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            is_table = False
        elif cells[-1] in TABLES:
            is_table = True
        elif is_table and not set(line) <= set("|-"):
            found[cells[0]] = list(named_in(cells[-1]))
    return found


def named_in(cell):
    file = ""
    paths = re.sub(r"\[[^]]*\.py\]\(\.\./([^)]*)\)", r"\1", cell)
    paths = re.sub(r"\[([^]]*)\]\(\.\./([^)]*)\)", r"\2::\1", paths)
    for each in filter(None, paths.replace("`", "").split(", ")):
        before, _, name = (f"{each}::test_" if each.endswith(".py") else each).rpartition("::")
        file = before or file
        yield file, name


PROMISES = [(page, *each) for page in ("security.md", "guarantees.md") for each in promises(page).items()]


@pytest.mark.parametrize(("page", "least"), [("security.md", 30), ("guarantees.md", 25)])
def test_something_is_promised(page, least):
    assert sum(each[0] == page and bool(each[2]) for each in PROMISES) >= least


@pytest.mark.parametrize(("page", "promise", "tests"), PROMISES)
def test_every_promise_names_tests_that_exist(page, promise, tests):
    assert tests or "no order" in promise, f"{page}: nothing proves {promise}"
    for file, name in tests:
        path = ROOT / file
        assert path.is_file(), f"{promise}: {file or name} is not there"
        wanted = rf"^\s*(?:async )?def {name}" + ("" if name == "test_" else r"\(")
        there = re.search(wanted, path.read_text(encoding="utf-8"), re.MULTILINE)
        assert name.startswith("test_"), f"{promise}: {name} is no test"
        assert there, f"{promise}: no {name} in {file}"


def test_a_reader_of_the_guarantees_gets_to_every_test_by_a_link():
    page = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    bare = re.sub(r"\]\([^)]*\)", "", page)
    assert "tests/" not in bare
    assert page.count("](../tests/") > 60


@pytest.mark.parametrize("page", ["README.md", "docs/guarantees.md"])
def test_the_front_page_promises_what_the_guarantees_do(page):
    """Loss is no detail: who reads the first page only knows of it."""
    said = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    for words in ("as UDP does, once", "a buffer or a process that fails loses", "is stored and sent again"):
        assert words.lower() in said.lower(), f"{page} does not say {words}"
