"""An index in a few words, as `pleroma plan show` says it."""

import pytest

from pleroma.cli.commands.plan import _described
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
