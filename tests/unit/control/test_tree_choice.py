"""Trees as commands and snapshots write them: cells that share nothing and leave nothing out, and cables."""

import pytest

from pleroma.control.state.tree_choice import DealtTree, check_trees, dealt_under
from pleroma.errors import ControlError
from pleroma.index import EVERYTHING, Dz, DzSet
from pleroma.routing import Family, build
from pleroma.routing.tree import low_latency_tree

TREE = low_latency_tree(build("ring:4"))


def over(*cells):
    return DealtTree.of(Family(DzSet.parse(*cells), TREE))


def test_trees_have_all_cells_between_them_and_none_in_common():
    check_trees(())
    check_trees((over(""),))
    check_trees((over("0", "11"), over("10")))
    with pytest.raises(ControlError, match="in common") as shared:
        check_trees((over("0"), over("01", "1")))
    assert shared.value.value == "{01}"
    with pytest.raises(ControlError, match="leave cells out") as left:
        check_trees((over("0"), over("10")))
    assert left.value.value == "{11}"


def test_the_trees_under_a_prefix_have_their_cells_without_it():
    families = [Family(DzSet.parse("00", "1"), TREE), Family(DzSet.parse("01"), TREE)]
    assert dealt_under(families, Dz.parse("0")) == (over("0"), over("1"))
    assert dealt_under(families, Dz.parse("1")) == (DealtTree.of(Family(EVERYTHING, TREE)),)
    assert dealt_under(families[:1], Dz.parse("01")) == ()
