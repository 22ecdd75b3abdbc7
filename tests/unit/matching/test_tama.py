"""TAMA's own example and theorem (Zhao and Wu 2011, III)."""

import numpy as np
import pytest

from pleroma.errors import IndexingError
from pleroma.matching.constraint_table import Constraint, ConstraintTable, Occurrences
from pleroma.matching.tama.discretization import LevelCell, Separation, discretize, worst_false_positives
from pleroma.matching.tama.tama import Tama

TEMPERATURE, DISTANCE, HEIGHT = range(3)
DOMAINS = [Separation((0.0, 100.0)), Separation((0.0, 1000.0)), Separation((0.0, 100.0))]
EXAMPLE = ConstraintTable.from_rows(
    [
        (1, [Constraint(TEMPERATURE, 10, 70), Constraint(DISTANCE, 100, 600)], 0),
        (2, [Constraint(TEMPERATURE, 0, 5), Constraint(HEIGHT, 5, 100)], 1),
    ]
)
EVENT = {TEMPERATURE: 40.0, DISTANCE: 200.0, HEIGHT: 70.0}


@pytest.mark.parametrize("exact", [True, False])
def test_the_example_of_the_paper(exact):
    """III-D: the event's cells at levels 0 to 4, and subscription 1 alone."""
    cells = [[DOMAINS[a].cell(value, level) for level in range(5)] for a, value in EVENT.items()]
    assert cells == [[0, 0, 1, 3, 6], [0, 0, 0, 1, 3], [0, 1, 2, 5, 11]]
    table = Tama.build(EXAMPLE, 4, DOMAINS, exact)
    found = table.search(Occurrences.from_events([EVENT]), 0, 1, np.zeros(2, np.bool_))
    assert EXAMPLE.ids[found.rows].tolist() == [1]


def test_a_range_over_five_levels():
    """As in figure 3: one cell at the level where a whole one fits first, then outwards on both sides."""
    assert discretize(3, 10, 4) == [LevelCell(2, 1), LevelCell(3, 4), LevelCell(4, 3), LevelCell(4, 10)]


def workload(width, rows=1500, constraints=2, attributes=4, seed=3):
    random = np.random.default_rng(seed)
    chosen = np.stack([random.permutation(attributes)[:constraints] for _ in range(rows)])
    low = random.uniform(0, 1 - width, (rows, constraints))
    first = np.arange(rows + 1) * constraints
    table = ConstraintTable.of(np.arange(rows), first, chosen.ravel(), low.ravel(), (low + width).ravel())
    return table, Occurrences.dense(random.random((1500, attributes)))


def found(table, events, level, exact):
    structure = Tama.build(table, level, [Separation()] * 4, exact)
    return len(structure.search(events, 0, len(events), np.zeros(len(table), np.bool_)).rows)


def test_one_more_level_halves_the_false_positives():
    """Theorem 3, measured, and the bound of theorem 2."""
    width = 0.1
    table, events = workload(width)
    true = found(table, events, 5, exact=True)
    rates = {level: 1 - true / found(table, events, level, exact=False) for level in range(5, 11)}
    for level in range(5, 10):
        assert 0.4 < rates[level + 1] / rates[level] < 0.62, rates
    assert all(rate <= worst_false_positives(width, level, 2) for level, rate in rates.items())


def test_every_level_finds_the_same_when_exact():
    table, events = workload(0.05)
    assert len({found(table, events, level, exact=True) for level in (0, 3, 8, 14)}) == 1


def test_optimal_separation_wastes_less_on_skewed_values():
    random = np.random.default_rng(5)
    values = random.pareto(2.0, (2000, 1))
    low = random.permutation(values.ravel())
    table = ConstraintTable.of(np.arange(2000), np.arange(2001), np.zeros(2000, np.int32), low, low * 1.3 + 0.01)
    events = Occurrences.dense(values)
    dead = np.zeros(2000, np.bool_)

    def rate(separation):
        exact, approximate = (
            len(Tama.build(table, 7, [separation], each).search(events, 0, len(events), dead).rows)
            for each in (True, False)
        )
        return 1 - exact / approximate

    uniform = Separation((0.0, float(values.max())))
    assert rate(Separation.fitted(values.ravel().tolist())) < rate(uniform) / 4


def test_interfaces_that_matched_are_not_asked_again():
    """With one interface for all, the first match is the last: what is left of the event is not looked at."""
    rows = [(i, [Constraint(0, 0.0, 1.0)], i % 3) for i in range(9)]
    structure = Tama.build(ConstraintTable.from_rows(rows))
    events = Occurrences.from_events([{0: 0.5}, {0: 2.0}])
    dead = np.zeros(9, np.bool_)
    assert structure.search_interfaces(events, 0, dead, 3).tolist() == [True] * 3
    assert structure.search_interfaces(events, 1, dead, 3).tolist() == [False] * 3
    dead[:] = [i % 3 == 1 for i in range(9)]
    assert structure.search_interfaces(events, 0, dead, 3).tolist() == [True, False, True]


def test_impossible_tables_are_refused():
    with pytest.raises(IndexingError, match="levels go from 0 to"):
        Tama.build(EXAMPLE, 40)
    with pytest.raises(IndexingError, match="separations"):
        Tama.build(EXAMPLE, 4, DOMAINS[:1])
    with pytest.raises(IndexingError, match="low to high"):
        Separation((1.0, 1.0))
