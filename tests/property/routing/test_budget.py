"""Coarser tables against brute force: never less than the exact table, never more rules than allowed, little waste."""

from hypothesis import given
from hypothesis import strategies as st

from pleroma.index import ROOT, Dz
from pleroma.routing.budget import Weights, coarsen
from pleroma.routing.flow import Flow, FlowTable, Output

DEPTH = 5
POINTS = range(1 << DEPTH, 1 << DEPTH + 1)


@st.composite
def tables(draw, most=12):
    """A canonical table: a longer rule has more ports than the one above it."""
    flows = {}
    codes = draw(st.sets(st.integers(1, (1 << DEPTH + 1) - 1), min_size=1, max_size=most))
    for dz in sorted(map(Dz, codes), key=lambda dz: dz.length):
        above = FlowTable(flows.values()).covering(dz)
        ports = set(above.ports if above else ()) | draw(st.sets(st.integers(1, 5), min_size=1, max_size=3))
        if above is None or ports != set(above.ports):
            flows[dz] = Flow(dz, tuple(Output(p, f"fd00::{p}" if p < 3 else None) for p in sorted(ports)))
    return FlowTable(flows.values())


def ports(table, point):
    flow = table.lookup(point)
    return set(flow.outputs) if flow else set()


def waste(exact, loose):
    return sum(len(ports(loose, p) - ports(exact, p)) for p in POINTS) / len(POINTS)


@given(tables(), st.integers(1, 12))
def test_a_coarser_table_forwards_all_that_the_exact_one_does(table, limit):
    loose, report = coarsen(table, limit)
    assert len(loose) <= limit
    assert (report.wanted, report.installed) == (len(table), len(loose))
    for point in POINTS:
        assert ports(table, point) <= ports(loose, point)
    assert abs(report.extra - waste(table, loose)) < 1e-9


@given(tables())
def test_a_table_that_fits_stays_as_it_is(table):
    loose, report = coarsen(table, len(table))
    assert loose == table
    assert report.extra == 0


@given(tables(), st.integers(1, 6))
def test_the_waste_is_near_the_best_possible(table, limit):
    """Best over all sets of subtrees to collapse, by trying them all."""
    loose, _ = coarsen(table, limit)
    best = min(waste(table, t) for t in all_collapsed(table) if len(t) <= limit)
    assert waste(table, loose) <= 1.2 * best + 1e-9


@given(tables(), st.integers(1, 6), st.lists(st.sampled_from(POINTS), min_size=1, max_size=30))
def test_a_sample_of_events_moves_the_waste_to_where_none_are(table, limit, sample):
    weights = Weights.of([Dz(p) for p in sample])
    loose, _ = coarsen(table, limit, weights)
    assert len(loose) <= limit
    for point in POINTS:
        assert ports(table, point) <= ports(loose, point)


def all_collapsed(table):
    """Every table that collapsing disjoint subtrees can make."""
    flows = list(table)

    def options(dz):
        inside = [f for f in flows if dz.covers(f.dz)]
        if not inside:
            return [[]]
        union = sorted({o for f in inside for o in f.outputs} | ports(table, dz), key=lambda o: o.port)
        found = [[Flow(dz, tuple(union))]]
        own = [table[dz]] if dz in table else []
        if dz.length < DEPTH:
            left, right = dz.children
            found += [own + a + b for a in options(left) for b in options(right)]
        else:
            found.append(own)
        return found[:400]

    return [FlowTable(t) for t in options(ROOT)]
