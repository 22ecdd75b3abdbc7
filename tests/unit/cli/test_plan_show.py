"""What `pleroma plan show` says: an index in a few words, and who looks for a better one to those who may know."""

import pytest

from pleroma.cli.commands.plan import _described, _looking, _travelling
from pleroma.errors import RequestRefused
from pleroma.index import GridIndex, TreeIndex
from pleroma.index.tree_index import LEAF
from support.strategies import STOCK


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (GridIndex.regular(STOCK, 3, ["price", "volume"]), "a grid of 3 bits (price 2, volume 1)"),
        (TreeIndex(STOCK, 8, (0, LEAF, 1, LEAF, LEAF), (500.0, 50.0)), "a tree of 3 cells (cuts: price 1, volume 1)"),
        (TreeIndex(STOCK, 8, (LEAF,), ()), "a tree of 1 cells (cuts: none)"),
    ],
)
def test_a_plan_says_which_attributes_it_looks_at(index, words):
    assert _described({"plan": {"schema": STOCK.to_json(), "index": index.to_json()}}) == words


class Refuses:
    """A controller that refuses every request."""

    def __init__(self, status):
        self.status = status

    def get(self, _path):
        raise RequestRefused("no", status=self.status, code="no")


def test_who_may_not_know_who_looks_for_plans_sees_the_plan_all_the_same():
    assert _looking(Refuses(403), "stock") is None
    with pytest.raises(RequestRefused):
        _looking(Refuses(503), "stock")


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("adopted", "events moved"),
        ("not_better", "events stay"),
        ("failed", "events cannot move yet"),
    ],
)
def test_how_the_busiest_cable_was_compared_is_told(outcome, words):
    trees = {"choice": "balanced", "count": 4, "moves": 2, "busiest_cable": None}
    assert _travelling(trees) == "trees in use (balanced): 4; moves so far: 2"
    compared = {"now": 0.61, "expected": 0.4, "events": 300, "outcome": outcome}
    told = _travelling(trees | {"busiest_cable": compared})
    assert told.endswith(f"; the busiest cable carried 61% of the events, with trees dealt out anew 40%: {words}")
