"""Families on the line of dz against brute force: how many rules tell them apart, and that coarser tables make do."""

from hypothesis import given
from hypothesis import strategies as st

from pleroma.index import Dz, DzSet
from pleroma.routing.budget import coarsen
from pleroma.routing.family_spans import FamilySpans
from pleroma.routing.flow import Flow, FlowTable, Output
from pleroma.routing.topology import Port

DEPTH = 5
POINTS = range(1 << DEPTH, 1 << DEPTH + 1)


@st.composite
def divided(draw, most=4):
    """Disjoint regions; some points belong to none."""
    owners = draw(st.lists(st.integers(-1, most - 1), min_size=1 << DEPTH, max_size=1 << DEPTH))
    cells = [[Dz(point) for point, owner in zip(POINTS, owners, strict=True) if owner == n] for n in range(most)]
    return [DzSet(each) for each in cells if each]


def fewest(regions, cell):
    """By definition: cells that no two regions have a part of, as few as hold all."""
    overlapping = sum(region.overlaps(cell) for region in regions)
    if overlapping <= 1:
        return overlapping
    return sum(fewest(regions, Dz(cell << 1 | bit)) for bit in (0, 1))


@given(divided())
def test_the_rules_that_tell_families_apart_are_counted(regions):
    assert FamilySpans(regions).least_rules == fewest(regions, Dz(1))


@given(divided(), st.data())
def test_a_table_with_room_for_these_is_made_coarse_enough_and_spans_no_two_families(regions, data):
    spans = FamilySpans(regions)
    flows = []
    for number, region in enumerate(regions):
        for dz in DzSet(region):
            port = data.draw(st.integers(0, 2), label="port")
            flows.append(Flow(dz, (Output(Port(3 * number + port)),)))
    table, _ = coarsen(FlowTable(flows), max(spans.least_rules, 1), None, spans)
    assert len(table) <= max(spans.least_rules, 1)
    for flow in table:
        assert sum(region.overlaps(flow.dz) for region in regions) <= 1
    for flow in flows:
        assert set(flow.ports) <= set(table.lookup(flow.dz << DEPTH - flow.dz.length).ports)
