"""Coarser tables against brute force: never less than the exact table, never more rules than allowed, little waste."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from pleroma.index import ROOT, Dz
from pleroma.routing import budget
from pleroma.routing.budget import Weights, coarsen
from pleroma.routing.flow import Flow, FlowTable, Output
from support.flow_tables import DEPTH, POINTS, outputs, tables


def waste(exact, loose):
    return sum(len(outputs(loose, p) - outputs(exact, p)) for p in POINTS) / len(POINTS)


@given(tables(), st.integers(1, 12))
def test_a_coarser_table_forwards_all_that_the_exact_one_does(table, limit):
    loose, report = coarsen(table, limit)
    assert len(loose) <= limit
    assert (report.wanted, report.installed) == (len(table), len(loose))
    for point in POINTS:
        assert outputs(table, point) <= outputs(loose, point)
    assert abs(report.extra - waste(table, loose)) < 1e-9


@given(tables())
def test_a_table_that_fits_stays_as_it_is(table):
    loose, report = coarsen(table, len(table))
    assert loose == table
    assert report.extra == 0


@given(tables(), st.integers(1, 6))
def test_no_other_choice_of_subtrees_wastes_less(table, limit):
    loose, _ = coarsen(table, limit)
    assert waste(table, loose) <= least_waste(table, ROOT, limit) + 1e-9


def test_large_tables_come_close_to_the_exact_answer(monkeypatch):
    random = Random(1)
    flows = {}
    for dz in sorted({Dz(random.randrange(1 << 8, 1 << 13)) for _ in range(600)}, key=lambda dz: dz.length):
        above = FlowTable(flows.values()).covering(dz)
        chosen = set(above.ports if above else ()) | {random.randint(1, 8)}
        flows[dz] = Flow(dz, tuple(Output(p) for p in sorted(chosen)))
    table = FlowTable(flows.values())
    for limit in (20, 150, 400):
        _, exact = coarsen(table, limit)
        with monkeypatch.context() as patched:
            patched.setattr(budget, "MAX_EXACT_STEPS", 0)
            priced, quick = coarsen(table, limit)
        assert len(priced) <= limit
        assert exact.extra <= quick.extra <= 1.1 * exact.extra


def test_large_tables_use_all_of_the_rules_they_may_have_where_the_rest_is_small(monkeypatch):
    """At the price where many cells are collapsed together, rules are left over: these are given back."""
    small = [Dz(1 << 9 | number) for number in range(0, 256, 8)]
    large = [Dz(1 << 6 | number) for number in range(32, 64, 2)]
    table = FlowTable([Flow(ROOT, (Output(1),)), *(Flow(dz, (Output(1), Output(2))) for dz in (*small, *large))])
    for limit in (8, 12):
        exact, least = coarsen(table, limit)
        with monkeypatch.context() as patched:
            patched.setattr(budget, "MAX_EXACT_STEPS", 2000)  # enough for the rest, but not for all
            loose, quick = coarsen(table, limit)
        assert len(loose) <= limit
        assert quick.extra <= 1.05 * least.extra
        assert len(exact) == len(loose)


def test_a_cell_without_events_weighs_a_little_by_its_volume():
    weights = Weights.of([Dz.parse("11")] * 4)
    full, large, small = weights.weigh([Dz.parse("11"), Dz.parse("0"), Dz.parse("100")])
    assert full > 1 > large > small > 0


@given(tables(), st.integers(1, 6), st.lists(st.sampled_from(POINTS), min_size=1, max_size=30))
def test_a_sample_of_events_moves_the_waste_to_where_none_are(table, limit, sample):
    weights = Weights.of([Dz(p) for p in sample])
    loose, _ = coarsen(table, limit, weights)
    assert len(loose) <= limit
    for point in POINTS:
        assert outputs(table, point) <= outputs(loose, point)


def least_waste(table, dz, most):
    """Brute force over what becomes of each cell: kept and shared between its halves, or collapsed."""
    inside = [flow for flow in table if dz.covers(flow.dz)]
    if not inside:
        return 0.0
    if most == 0:
        return float("inf")
    union = set().union(*(flow.outputs for flow in inside), outputs(table, dz))
    points = [p for p in POINTS if p >> DEPTH - dz.length == dz]
    best = sum(len(union - outputs(table, p)) for p in points) / len(POINTS)
    if dz.length == DEPTH:
        return best
    left, right = dz.children
    rest = most - (dz in table)
    shares = [least_waste(table, left, k) + least_waste(table, right, rest - k) for k in range(rest + 1)]
    return min([best, *shares])
