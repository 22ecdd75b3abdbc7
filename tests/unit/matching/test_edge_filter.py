"""The edge filter with so many filters that it uses the engine, and where the engine cannot be had."""

import gc
import subprocess
import sys
import weakref

import pytest

from pleroma.content import Filter, Integer, Schema, Text
from pleroma.matching import edge_filter
from pleroma.matching.edge_filter import LOOKS_PER_FILTER, MIN_CHANGES_FOR_TABLE, EdgeFilter

NEWS = Schema("news", (Integer("n", False, 0, 999), Text("topic", True)))
TEXTS = ("n < 500", "n == 7", "topic == 'a long topic, the first'", "not exists topic", "n in (3, 7) or topic > 'b'")


@pytest.fixture
def few_are_many(monkeypatch):
    monkeypatch.setattr(edge_filter, "MIN_ENGINE_FILTERS", 40)


@pytest.mark.usefixtures("few_are_many")
def test_the_engine_takes_over_and_nobody_notices():
    filters = [Filter.parse(NEWS, text) for text in TEXTS]
    filter_of = {owner: filters[owner % len(filters)] for owner in range(100)}
    wanting = EdgeFilter()
    for owner, wanted in filter_of.items():
        wanting.add(owner, wanted)
    assert wanting._engine is not None
    for owner in range(0, 100, 3):
        wanting.remove(owner)
        del filter_of[owner]
    wanting.add(1, filters[3])
    filter_of[1] = filters[3]
    assert len(wanting) == len(filter_of)
    assert sorted(wanting) == sorted(filter_of)
    for values in ({"n": 7}, {"n": 600, "topic": "a long topic, the second"}, {"n": 3, "topic": "c"}):
        event = NEWS.event(**values)
        found = wanting.wanting(event)
        assert sorted(found) == sorted(o for o, wanted in filter_of.items() if wanted.matches(event))


class Owner:
    """Somebody whose end can be noticed."""


@pytest.mark.parametrize("engine_from", [40, 10_000])
def test_nobody_is_kept_who_left_long_ago(monkeypatch, engine_from):
    monkeypatch.setattr(edge_filter, "MIN_ENGINE_FILTERS", engine_from)
    owners = [Owner() for _ in range(100)]
    wanting = EdgeFilter()
    for owner in owners:
        wanting.add(owner, Filter.parse(NEWS, "n < 500"))
    staying, leaving = owners[:20], [weakref.ref(owner) for owner in owners[20:]]
    while len(owners) > len(staying):
        wanting.remove(owners.pop())
    del owner
    gc.collect()
    assert sum(each() is not None for each in leaving) <= MIN_CHANGES_FOR_TABLE
    assert wanting.wanting(NEWS.event(n=7)) == staying


def test_one_who_left_and_came_back_is_found():
    wanting = EdgeFilter()
    for owner in range(3 * MIN_CHANGES_FOR_TABLE):
        wanting.add(owner, Filter.parse(NEWS, "n < 500"))
    for _ in range(2):  # the second time, all of them are in a table from which nobody is missing
        for owner in range(2 * MIN_CHANGES_FOR_TABLE):
            wanting.remove(owner)
            wanting.add(owner, Filter.parse(NEWS, "n < 500"))
        assert sorted(wanting.wanting(NEWS.event(n=7))) == list(range(3 * MIN_CHANGES_FOR_TABLE))


def test_newcomers_are_looked_through_one_by_one_only_for_some_events(monkeypatch):
    looked, matches = [], Filter.matches
    monkeypatch.setattr(Filter, "matches", lambda wanted, event: looked.append(wanted) or matches(wanted, event))
    wanting = EdgeFilter()
    for owner in range(MIN_CHANGES_FOR_TABLE):
        wanting.add(owner, Filter.parse(NEWS, "n == 7"))
    for _ in range(100):
        assert len(wanting.wanting(NEWS.event(n=7))) == MIN_CHANGES_FOR_TABLE
    assert len(looked) == (LOOKS_PER_FILTER + 1) * MIN_CHANGES_FOR_TABLE
    looked.clear()
    for owner in range(10 * MIN_CHANGES_FOR_TABLE):
        wanting.add(owner, Filter.parse(NEWS, "n == 7"))
    assert len(wanting.wanting(NEWS.event(n=7))) == 10 * MIN_CHANGES_FOR_TABLE
    assert len(looked) <= MIN_CHANGES_FOR_TABLE


WITHOUT = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"numpy", "numba"}:
            raise ModuleNotFoundError(f"a sensor has no {name}")

sys.meta_path.insert(0, Refuse())

from pleroma.content import Filter, Integer, Schema
from pleroma.matching import EdgeFilter, edge_filter

edge_filter.MIN_ENGINE_FILTERS = 40
schema = Schema("numbers", (Integer("n", False, 0, 99),))
wanting = EdgeFilter()
for owner in range(100):
    wanting.add(owner, Filter.parse(schema, f"n == {owner}"))
print(wanting.wanting(schema.event(n=42)))
"""


def test_without_numpy_the_table_goes_on():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[42]"
