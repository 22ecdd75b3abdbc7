"""Compiled tables against the scan by priority, and the kernels against their obvious twins."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pleroma.index.dz import Dz
from pleroma.routing.flow import Flow, Output
from pleroma.routing.topology import Port, SwitchId
from pleroma.switches import CompiledTable, SimulatedTable
from pleroma.switches.simulated import table_kernels
from support.networks import LENGTHS, codes_of, seeds, some_cells

WORD = (1 << 64) - 1


def a_case(rng):
    where = some_cells(rng)
    dzs = {where.part(rng) for _ in range(rng.randint(0, 15))}
    dzs |= {Dz(1 << n | rng.getrandbits(n)) for n in rng.choices(range(113), k=rng.randint(0, 3))}  # some too long
    flows = [Flow(dz, tuple(Output(Port(p)) for p in (1, 2, 3, 4) if rng.random() < 0.5)) for dz in dzs]
    return where.bits, flows, [where.whole(rng) for _ in range(rng.randint(0, 15))]


@given(seeds.map(a_case))
def test_a_compiled_table_finds_the_rule_that_the_scan_finds(case):
    bits, flows, events = case
    table, reference = CompiledTable.of(flows, bits), SimulatedTable(SwitchId("s"), None, flows)
    codes = codes_of(events, bits)
    found = [None if rule < 0 else flows[rule] for rule in table.match(codes).tolist()]
    assert found == [reference.match(dz) for dz in events]
    words = [np.ascontiguousarray(codes.words[:, w]) for w in range(codes.words.shape[1])]
    groups = table.group[table.find(*words)].tolist()
    assert [table.groups[group] for group in groups] == [() if flow is None else flow.outputs for flow in found]
    assert [group == 0 for group in groups] == [flow is None for flow in found]


@given(seeds.map(a_case))
def test_intervals_begin_at_zero_and_grow(case):
    bits, flows, _ = case
    table = CompiledTable.of(flows, bits)
    lows = table.low.tolist() if bits > 64 else [0] * len(table)
    starts = [high << 64 | low for high, low in zip(table.high.tolist(), lows, strict=True)]
    assert starts[0] == 0
    assert starts == sorted(set(starts))
    assert len(table) <= 2 * len(flows) + 1
    by_port = table.by_port()
    assert list(by_port) == sorted({port for flow in flows for port in flow.ports})
    assert all(
        groups.keys() == {g for g, out in enumerate(table.groups) if (p, None) in out} for p, groups in by_port.items()
    )


def halves(values):
    return tuple(np.array([value >> shift & WORD for value in values], np.uint64) for shift in (64, 0))


@given(st.lists(st.integers(1, (1 << 113) - 1) | st.sampled_from([1 << n for n in LENGTHS]), max_size=10))
def test_aligning_drops_the_leading_one_and_shifts_to_the_left(dzs):
    high, low = halves(dzs)
    lengths = table_kernels.align(high, low)
    assert lengths.tolist() == [Dz(dz).length for dz in dzs]
    codes = [h << 64 | x for h, x in zip(high.tolist(), low.tolist(), strict=True)]
    assert codes == [Dz(dz).start << 16 for dz in dzs]


@given(seeds)
def test_sweeping_nested_intervals_finds_the_innermost_everywhere(rng):
    where = some_cells(rng)
    dzs = sorted({where.part(rng) for _ in range(12)}, key=lambda dz: (dz.start, dz.length))
    spans = [(dz.start << 16, (dz.end << 16) - 1) for dz in dzs]
    size = 2 * len(dzs) + 1
    starts_high, starts_low, owner = np.empty(size, np.uint64), np.empty(size, np.uint64), np.empty(size, np.int64)
    ends = [*halves([start for start, _ in spans]), *halves([last for _, last in spans])]
    count = table_kernels.sweep(*ends, starts_high, starts_low, owner)
    starts = [h << 64 | x for h, x in zip(starts_high[:count].tolist(), starts_low[:count].tolist(), strict=True)]
    for point in {0, (1 << 128) - 1, *(e for span in spans for e in span), *(last + 1 for _, last in spans)}:
        if point < 1 << 128:
            place = max(i for i, start in enumerate(starts) if start <= point)
            inside = [i for i, (start, last) in enumerate(spans) if start <= point <= last]
            assert owner[place] == max(inside, key=lambda i: dzs[i].length, default=-1)


@given(st.sets(st.integers(1, (1 << 128) - 1), max_size=12), st.lists(st.integers(0, (1 << 128) - 1), max_size=12))
def test_finding_is_the_last_start_not_above(later, points):
    starts = [0, *sorted(later)]
    points = [*points, *starts, *(start - 1 for start in starts[1:])]
    out = np.empty(len(points), np.int64)
    table_kernels.find(*halves(starts), *halves(points), out)
    assert out.tolist() == [max(i for i, start in enumerate(starts) if start <= point) for point in points]
