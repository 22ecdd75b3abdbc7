"""The edge filter with so many filters that it uses the engine, and where the engine cannot be had."""

import subprocess
import sys

import pytest

from pleroma.content import Filter, Integer, Schema, Text
from pleroma.matching import edge_filter
from pleroma.matching.edge_filter import EdgeFilter

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


WITHOUT = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"numpy", "numba"}:
            raise ModuleNotFoundError(f"a sensor has no {name}")

sys.meta_path.insert(0, Refuse())

from pleroma.content import Filter, Integer, Schema
from pleroma.matching import EdgeFilter, edge_filter

edge_filter.MANY = 40
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
