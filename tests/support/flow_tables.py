"""Random flow tables, small enough to look at every point of their event space."""

from hypothesis import strategies as st

from pleroma.index import Dz
from pleroma.routing.flow import Flow, FlowTable, Output
from pleroma.routing.topology import Port

DEPTH = 5
POINTS = range(1 << DEPTH, 1 << DEPTH + 1)


@st.composite
def tables(draw: st.DrawFn, most: int = 12) -> FlowTable:
    """A canonical table: a longer rule has more ports than the one above it."""
    flows: dict[Dz, Flow] = {}
    codes = draw(st.sets(st.integers(1, (1 << DEPTH + 1) - 1), min_size=1, max_size=most))
    for dz in sorted(map(Dz, codes), key=lambda dz: dz.length):
        above = FlowTable(flows.values()).covering(dz)
        ports = set(above.ports if above else ()) | draw(st.sets(st.integers(1, 5), min_size=1, max_size=3))
        if above is None or ports != set(above.ports):
            flows[dz] = Flow(dz, tuple(Output(Port(p), f"fd00::{p}" if p < 3 else None) for p in sorted(ports)))
    return FlowTable(flows.values())


def outputs(table: FlowTable, point: Dz) -> set[Output]:
    flow = table.lookup(point)
    return set(flow.outputs) if flow else set()
