"""Plans of many kinds, and what a network holds that was told everything, for the tests of changes between plans."""

from collections.abc import Iterable, Mapping

from hypothesis import strategies as st

from pleroma.content import Schema
from pleroma.content.filter_json import from_json
from pleroma.control import Register
from pleroma.index import Dz, DzSet, GridIndex, Index, SelectiveIndex, TreeIndex
from pleroma.index.selective_index import Rectangle, SelectiveRegion
from pleroma.index.tree_walk import LEAF
from pleroma.routing import (
    AdmitOp,
    Advertise,
    Change,
    DetourOp,
    FlowOp,
    FlowTable,
    HostId,
    Port,
    Subscribe,
    SwitchId,
    Topology,
)
from pleroma.routing.family import Family, FollowedTrees
from pleroma.routing.request import Request
from pleroma.routing.router import Router
from pleroma.switches.simulated.simulated_table import SimulatedTable
from support.control_cases import SMALL


@st.composite
def grids(draw: st.DrawFn, schema: Schema, most: int = 7) -> GridIndex:
    """Regular grids in any dimensions, and adaptive ones whose boundaries lie anywhere."""
    if draw(st.booleans()):
        dimensions = draw(st.lists(st.sampled_from(schema.names), unique=True))
        return GridIndex.regular(schema, draw(st.integers(0, most)), dimensions)
    number = draw(st.integers(0, len(schema.attributes) - 1))
    low, high = schema.attributes[number].extent
    bits = draw(st.integers(1, min(3, schema.attributes[number].bits)))
    inner = st.floats(low, high, exclude_min=True, exclude_max=True)
    boundaries = draw(st.lists(inner, min_size=2**bits - 1, max_size=2**bits - 1, unique=True))
    return GridIndex(schema, (number,) * bits, {number: tuple(sorted(boundaries))})


@st.composite
def selectives(draw: st.DrawFn, schema: Schema) -> SelectiveIndex:
    """A rectangle with a grid in it and the rest, quiet or not."""
    spans = {}
    for number, attribute in enumerate(schema.attributes):
        low, high = attribute.extent
        ends = sorted(draw(st.lists(st.integers(int(low), int(high)), min_size=2, max_size=2, unique=True)))
        spans[number] = (float(ends[0]), float(ends[1]))
    return selective(schema, spans, draw(st.booleans()), draw(st.integers(0, 3)))


def selective(
    schema: Schema, spans: Mapping[int, tuple[float, float]], quiet: bool = False, bits: int = 2
) -> SelectiveIndex:
    grid = GridIndex.regular(schema, bits)
    inner = SelectiveRegion(Dz.parse("0"), Rectangle(tuple(spans[n] for n in sorted(spans))), grid)
    return SelectiveIndex(schema, (inner, SelectiveRegion(Dz.parse("1"), None, grid)), quiet=quiet)


@st.composite
def trees(draw: st.DrawFn, schema: Schema, bits: int = 7, most: int = 12, depth: int | None = None) -> TreeIndex:
    """Any splits anywhere."""
    dims: list[int] = []
    cuts: list[float] = []
    todo = [0]
    while todo:
        at = todo.pop()
        if at == (bits if depth is None else depth) or len(cuts) == most or not draw(st.integers(0, 3)):
            dims.append(LEAF)
            continue
        d = draw(st.integers(0, len(schema.attributes) - 1))
        low, high = schema.attributes[d].extent
        dims.append(d)
        cuts.append(float(draw(st.integers(int(low), int(high)))))
        todo += [at + 1, at + 1]
    return TreeIndex(schema, bits, tuple(dims), tuple(cuts))


@st.composite
def regrowths(draw: st.DrawFn, index: TreeIndex) -> TreeIndex:
    """The tree with other parts below some of its nodes."""
    for _ in range(draw(st.integers(1, 3))):
        nodes = [Dz(code) for code in index.layout.codes if 0 < Dz(code).length < index.bits]
        if nodes:
            at = draw(st.sampled_from(nodes))
            part = draw(trees(index.schema, index.bits - at.length, most=5))
            index = index.regrown(at, part)
    return index


def indices(schema: Schema) -> st.SearchStrategy[Index]:
    return grids(schema) | selectives(schema) | trees(schema)


def region(index: Index, prefix: Dz, command: Register, schema: Schema, most: int = SMALL.max_members) -> DzSet:
    """What a registration has under a plan, from first principles."""
    opened = index.opened() if isinstance(index, SelectiveIndex) else index
    covering = opened.cover(from_json(schema, command.filter), max_members=most)
    return DzSet(prefix.then(dz) for dz in covering)


def tables_of(
    topology: Topology, families: Iterable[Family], registrations: Iterable[Request], max_length: int
) -> Mapping[SwitchId, FlowTable]:
    """By a router that knows nothing else."""
    kept = list(families)
    router = Router(topology, policy=FollowedTrees(lambda: kept), max_length=max_length)
    for each in registrations:
        router.apply(each)
    return router.tables


class Mirror:
    """Switches that do as they are told, each step as a bundle, and have room for so many rules."""

    def __init__(self, topology: Topology) -> None:
        self.tables = {s: SimulatedTable(s, topology.limits.get(s)) for s in topology.switches}
        self.admitted: set[tuple[SwitchId, Port, Dz]] = set()

    def take(self, ops: Iterable[FlowOp | DetourOp | AdmitOp]) -> None:
        bundles: dict[SwitchId, list[FlowOp | DetourOp]] = {}
        for op in ops:
            if isinstance(op, AdmitOp):
                place = (op.switch, op.port, op.dz)
                assert (place in self.admitted) == (op.change is Change.DELETE), op
                self.admitted ^= {place}
            else:
                bundles.setdefault(op.switch, []).append(op)
        for switch, bundle in bundles.items():
            self.tables[switch].bundle(bundle)

    def rules(self) -> dict[SwitchId, FlowTable]:
        return {switch: table.flows() for switch, table in self.tables.items()}

    def detours(self) -> dict[SwitchId, FlowTable]:
        """Their order is of no account: their cells are disjoint."""
        return {switch: FlowTable(table.detours) for switch, table in self.tables.items()}


def as_request(command: Register, id_: str, region_: DzSet) -> Advertise | Subscribe:
    kind = Advertise if command.kind == "advertisement" else Subscribe
    return kind(id_, HostId(command.host), region_)
