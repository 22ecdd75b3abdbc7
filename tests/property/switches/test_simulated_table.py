"""A simulated table against a plain dict, through any sequence of operations."""

from hypothesis import given
from hypothesis import strategies as st

from pleroma.errors import RoutingError
from pleroma.routing.flow import Change, Flow, FlowOp, FlowTable, Output
from pleroma.routing.topology import Port, SwitchId
from pleroma.switches import SimulatedTable
from support.networks import seeds, some_cells

S = SwitchId("s")


def operations(where, rng):
    """About half of them fit what is there."""
    for _ in range(rng.randint(0, 20)):
        outputs = tuple(Output(Port(p)) for p in (1, 2, 3) if rng.random() < 0.5)
        yield FlowOp(
            S, rng.choice([Change.ADD, Change.ADD, Change.MODIFY, Change.DELETE]), Flow(where.part(rng), outputs)
        )


def a_case(rng):
    where = some_cells(rng, (2, 3, 112))
    events = [rng.choice([where.part, where.whole])(rng) for _ in range(10)]
    return list(operations(where, rng)), list(operations(where, rng))[: rng.randint(0, 4)], events


def agrees(table, flows, events):
    assert list(table) == list(flows.values())
    for dz in events:
        covering = [flow for flow in flows.values() if flow.dz.covers(dz)]
        longest = max(covering, key=lambda flow: flow.dz.length, default=None)
        assert table.match(dz) == table.lookup(dz) == FlowTable(table).lookup(dz) == longest


def attempt(change, ops):
    try:
        change(ops)
    except RoutingError:
        return False
    return True


def model(flows, op, capacity):
    """The dict after one operation, or None where it is refused."""
    if (op.flow.dz in flows) != (op.change is not Change.ADD):
        return None
    if op.change is Change.DELETE:
        return {dz: flow for dz, flow in flows.items() if dz != op.flow.dz}
    after = flows | {op.flow.dz: op.flow}
    return after if len(after) <= capacity else None


@given(seeds.map(a_case), st.integers(1, 6))
def test_one_by_one_a_table_is_a_dict_with_longest_prefix_first(case, capacity):
    ops, _, events = case
    table, flows = SimulatedTable(S, capacity), {}
    for op in ops:
        after = model(flows, op, capacity)
        assert attempt(table.apply, [op]) == (after is not None)
        flows = flows if after is None else after
        agrees(table, flows, events)


@given(seeds.map(a_case), st.integers(1, 6))
def test_a_bundle_is_all_or_nothing_and_only_its_end_has_to_fit(case, capacity):
    first, ops, events = case
    table, flows = SimulatedTable(S, capacity), {}
    for op in first:
        if attempt(table.apply, [op]):
            flows = model(flows, op, capacity)
    after = flows
    for op in ops:
        after = None if after is None else model(after, op, capacity=1000)
    fits = after is not None and len(after) <= capacity
    assert attempt(table.bundle, ops) == fits
    assert {flow.dz: flow for flow in table} == (after if fits else flows)
    agrees(table, {flow.dz: flow for flow in table}, events)
