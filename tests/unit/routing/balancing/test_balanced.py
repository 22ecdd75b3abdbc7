"""Balanced trees as a policy: how a prefix is dealt before anyone uses it, and how much room it takes."""

import pytest

from pleroma.errors import RoutingError
from pleroma.index import EVERYTHING, ROOT, Dz, DzSet
from pleroma.routing import Family, Router, build, low_latency_tree
from pleroma.routing.balancing import BalancedTrees, most_cells

FAT_TREE = build("fat-tree:4")


def test_without_an_open_prefix_there_is_one_tree():
    assert Router(FAT_TREE, policy=BalancedTrees()).families == (Family(EVERYTHING, low_latency_tree(FAT_TREE)),)


def test_an_opened_prefix_is_dealt_over_the_four_core_switches_and_the_rest_stays():
    router = Router(FAT_TREE, policy=BalancedTrees())
    router.open_prefix(Dz.parse("01"))
    inside = [family.region & DzSet.parse("01") for family in router.families]
    assert sorted(region.volume for region in inside if region) == [1 / 16] * 4
    rest = next(family for family in router.families if family.region.covers(Dz.parse("1")))
    assert rest.tree == low_latency_tree(FAT_TREE)
    used = {link for family in router.families for link in family.tree.links}
    assert used == set(FAT_TREE.links)


@pytest.mark.parametrize(("limit", "cells"), [(None, 16), (128, 16), (64, 8), (16, 2), (8, 1), (1, 1)])
def test_small_tables_are_dealt_fewer_cells(limit, cells):
    """A quarter of the rules may be turns between families, and half of these are for the next deal."""
    assert most_cells(FAT_TREE.with_limit(limit), (), 8) == cells


def test_other_families_take_room():
    others = [Family(DzSet.parse("000", "011"), low_latency_tree(FAT_TREE)), Family(DzSet.parse("001"), None)]
    assert most_cells(FAT_TREE.with_limit(64), others, 8) == (16 - 3) // 2


def test_there_is_at_least_one_tree():
    with pytest.raises(RoutingError, match="at least one tree"):
        BalancedTrees(0)
    assert len(BalancedTrees(1).opened([], FAT_TREE, ROOT)) == 1
