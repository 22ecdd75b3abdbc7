"""Every structure finds what looking at each subscription finds: no more and no less."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pleroma.matching.bit_sets import BitSets
from pleroma.matching.choice import STRUCTURES
from pleroma.matching.constraint_table import ConstraintTable, Occurrences
from pleroma.matching.tama.discretization import Separation
from pleroma.matching.tama.tama import Tama
from support.matching_cases import events, subscriptions, wants


def found_by(structure, occurrences, dead=None):
    """For each event the ids it finds."""
    dead = np.zeros(len(structure.table), np.bool_) if dead is None else dead
    rows, ends = structure.search(occurrences, 0, len(occurrences), dead)
    return [sorted(structure.table.ids[part].tolist()) for part in np.split(rows, ends[:-1])] if len(ends) else []


def expected(rows, asked):
    return [[i for i, wanted in enumerate(rows) if wants(wanted, event)] for event in asked]


@pytest.mark.parametrize("name", sorted(STRUCTURES))
@given(rows=st.lists(subscriptions, max_size=12), repeated=st.integers(1, 12), asked=st.lists(events, max_size=6))
def test_exactly_what_matches_is_found(name, rows, repeated, asked):
    rows = rows * repeated  # the same subscription from many, and more than one word of bits
    table = ConstraintTable.from_rows((i, wanted, 0) for i, wanted in enumerate(rows))
    assert found_by(STRUCTURES[name].build(table), Occurrences.from_events(asked)) == expected(rows, asked)


@pytest.mark.parametrize("name", sorted(STRUCTURES))
@given(rows=st.lists(subscriptions, min_size=1, max_size=12), gone=st.data(), asked=st.lists(events, max_size=3))
def test_rows_that_left_are_not_found(name, rows, gone, asked):
    left = gone.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    structure = STRUCTURES[name].build(ConstraintTable.from_rows((i, wanted, 0) for i, wanted in enumerate(rows)))
    dead = np.array([left[i] for i in structure.table.ids])
    found = found_by(structure, Occurrences.from_events(asked), dead)
    assert found == [[i for i in each if not left[i]] for each in expected(rows, asked)]


@given(
    rows=st.lists(subscriptions, max_size=12),
    asked=st.lists(events, max_size=4),
    level=st.integers(0, 12),
    sample=st.lists(st.floats(-4, 8), min_size=2, unique=True),
)
def test_tama_is_exact_at_any_level_with_any_separation(rows, asked, level, sample):
    table = ConstraintTable.from_rows((i, wanted, 0) for i, wanted in enumerate(rows))
    separations = [Separation.fitted(sample, steps) for steps in (1, 2, 3, 8, 64)]
    occurrences = Occurrences.from_events(asked)
    exact = Tama.build(table, level, separations)
    assert found_by(exact, occurrences) == expected(rows, asked)
    approximate = found_by(Tama.build(table, level, separations, exact=False), occurrences)
    for some, all_of_them in zip(approximate, expected(rows, asked), strict=True):
        assert set(some) >= set(all_of_them), "an approximation may say too much, never too little"


@given(
    rows=st.lists(st.tuples(subscriptions, st.integers(0, 3)), max_size=12),
    asked=st.lists(events, max_size=3),
)
def test_interfaces_match_when_one_of_their_subscriptions_does(rows, asked):
    table = ConstraintTable.from_rows((i, wanted, interface) for i, (wanted, interface) in enumerate(rows))
    structure = Tama.build(table)
    occurrences = Occurrences.from_events(asked)
    dead = np.zeros(len(rows), np.bool_)
    for number, event in enumerate(asked):
        matched = structure.search_interfaces(occurrences, number, dead, 4)
        assert set(np.flatnonzero(matched)) == {interface for wanted, interface in rows if wants(wanted, event)}


@settings(deadline=None)
@given(cells=st.integers(2, 40), seed=st.integers(0, 2**32 - 1))
def test_bit_sets_are_exact_with_any_number_of_cells_over_many_words(cells, seed):
    random = np.random.default_rng(seed)
    rows = 9000  # more than a word of the summary
    low = random.uniform(-1, 1, (rows, 2))
    table = ConstraintTable.of(
        np.arange(rows), np.arange(rows + 1) * 2, random.integers(0, 4, 2 * rows), low.ravel(), (low + 0.3).ravel()
    )
    asked = Occurrences.dense(random.uniform(-1, 1, (5, 4)))
    oracle = STRUCTURES["scan"].build(table)
    assert found_by(BitSets.build(table, cells), asked) == found_by(oracle, asked)
