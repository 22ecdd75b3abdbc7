"""What `pleroma plan show` says: an index in a few words, and who looks for a better one to those who may know."""

import re

import pytest

from pleroma.cli.commands.plan import _looking, _travelling
from pleroma.cli.plan_tables import described, leaves_by_attribute, show_plan, show_plans
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
    assert described({"plan": {"schema": STOCK.to_json(), "index": index.to_json()}}) == words


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


TREE = TreeIndex(STOCK, 8, (0, LEAF, 1, LEAF, 1, LEAF, LEAF), (500.0, 50.0, 60.0))
ORIGIN = {"at": "2026-11-16T20:15:00+00:00", "by": None, "predicted": {"waste_at_hosts": 0.041, "rules": 1985}}
MEASURED = {"seconds": 60.0, "packets": 2000, "waste_at_hosts": 0.052}


def answer(**more):
    return {"epoch": 2, "members": 8, "plan": {"schema": STOCK.to_json(), "index": TREE.to_json()}, **more}


def test_leaves_are_counted_by_the_attributes_on_the_way_to_them():
    assert leaves_by_attribute(TREE) == {0: 4, 1: 3}
    assert leaves_by_attribute(TreeIndex(STOCK, 8, (LEAF,), ())) == {}


def test_a_plan_is_shown_with_its_leaves_its_origin_and_its_waste(capsys):
    show_plan(answer(origin=ORIGIN, measured=MEASURED))
    said = " ".join(capsys.readouterr().out.split())
    assert "4 leaves, by attributes on the way to them" in said
    assert re.search(r"price\s*│\s*1\s*│\s*4\s*│\s*100%", said)
    assert re.search(r"volume\s*│\s*2\s*│\s*3\s*│\s*75%", said)
    assert "asked for by the controller at 2026-11-16 20:15:00" in said
    assert "predicted: 4.1% waste at hosts, 1,985 rules" in said
    assert "measured: 5.2% waste at hosts, of 2,000 packets" in said


def test_the_history_has_a_line_for_each_plan_also_for_those_who_may_not_know_its_origin(capsys):
    quiet = {"seconds": 1.0, "packets": 0, "waste_at_hosts": None}
    show_plans("stock", [answer(), answer(origin=ORIGIN | {"by": "ann"}, measured=quiet)])
    said = capsys.readouterr().out
    assert "2026-11-16 20:15:00" in said
    assert "ann" in said
    assert "nothing came" in said
