"""docs/security.md: every promise names tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def promises():
    """By promise, its tests as (file, name).

    A name without a file is in the file of the test before it; a file without a name stands for all of its tests.
    """
    section = re.search(r"^## What is promised\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL).group(1)
    found = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or cells[0] in ("promise", "---"):
            continue
        promise, named = cells
        file, tests = "", []
        for each in named.replace("`", "").split(", "):
            before, _, name = (f"{each}::test_" if each.endswith(".py") else each).rpartition("::")
            file = before or file
            tests.append((file, name))
        found[promise] = tests
    return found


PROMISES = promises()


def test_something_is_promised():
    assert len(PROMISES) >= 4


@pytest.mark.parametrize("promise", PROMISES)
def test_every_promise_names_tests_that_exist(promise):
    for file, name in PROMISES[promise]:
        path = ROOT / file
        assert path.is_file(), f"{promise}: {file or name} is not there"
        wanted = rf"^\s*(?:async )?def {name}" + ("" if name == "test_" else r"\(")
        there = re.search(wanted, path.read_text(encoding="utf-8"), re.MULTILINE)
        assert name.startswith("test_"), f"{promise}: {name} is no test"
        assert there, f"{promise}: no {name} in {file}"
