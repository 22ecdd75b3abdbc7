"""The chosen subtrees, against all that could be chosen."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pleroma.content import Integer, Schema
from pleroma.learning.subtree_choice import lightest_subtrees
from support.trees import trees

LINE = Schema("line", (Integer("x", False, 0, 99),))


@st.composite
def weighed_trees(draw):
    index = draw(trees(LINE, (), bits=6, most=8))
    size = len(index.dimensions)
    worth = draw(st.lists(st.integers(-5, 20), min_size=size, max_size=size))
    weight = draw(st.lists(st.integers(0, 9), min_size=size, max_size=size))
    return index, np.array(worth, np.float64), np.array(weight, np.float64)


def apart(index, nodes):
    return all(not first <= second < index.layout.end[first] for first, second in combinations(sorted(nodes), 2))


def all_choices(index, most):
    for count in range(most + 1):
        for nodes in combinations(range(len(index.dimensions)), count):
            if apart(index, nodes):
                yield list(nodes)


@given(weighed_trees(), st.integers(1, 3), st.integers(0, 60))
def test_no_others_are_worth_as_much_and_lighter(weighed, most, least):
    index, worth, weight = weighed
    found = lightest_subtrees(index, worth, weight, most, lambda nodes: bool(worth[nodes].sum() >= least))
    choices = list(all_choices(index, most))
    assert (found is None) == (max(worth[nodes].sum() for nodes in choices) < least)
    if found is not None:
        assert len(found.nodes) <= most
        assert apart(index, found.nodes.tolist())
        assert found.worth == worth[found.nodes].sum() >= least
        assert found.weight == weight[found.nodes].sum()
        assert not any(worth[n].sum() >= found.worth and weight[n].sum() < found.weight for n in choices)


@given(weighed_trees(), st.integers(1, 3))
def test_what_weighs_nothing_is_chosen_for_its_worth_alone(weighed, most):
    index, worth, _ = weighed
    found = lightest_subtrees(index, worth, np.zeros(len(worth)), most, lambda _: True)
    assert found.worth == max(worth[nodes].sum() for nodes in all_choices(index, most))


@given(weighed_trees(), st.integers(1, 3))
def test_a_node_that_must_not_be_chosen_is_not(weighed, most):
    index, worth, weight = weighed
    worth = np.where(np.arange(len(worth)) % 2, worth, -np.inf)
    found = lightest_subtrees(index, worth, weight, most, lambda _: True)
    assert (found.nodes % 2 == 1).all()
