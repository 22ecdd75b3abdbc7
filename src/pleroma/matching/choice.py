"""Which structure suits a table: an estimate of what an event costs in each, from a sample of the subscriptions.

No structure is best everywhere. Narrow constraints over many attributes are found fastest by their pivots; wide ones
over few attributes by and-ing bit sets, whose memory grows with the number of attributes. Where pivots are wide and
bit sets too large, pivots remain; and few enough subscriptions are best just looked through.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Floats, Ints
from pleroma.errors import UnknownName
from pleroma.index.codes import WORD_BITS
from pleroma.matching.bit_sets import CELLS_PER_ATTRIBUTE, LIKENESS_CONSTRAINTS, BitSets
from pleroma.matching.boundaries import boundaries, spans
from pleroma.matching.constraint_table import ConstraintTable
from pleroma.matching.pivots import Pivots
from pleroma.matching.scan import Scan
from pleroma.matching.structure import Structure
from pleroma.matching.tama.tama import Tama

STRUCTURES: Mapping[str, type[Structure]] = {each.name: each for each in (Scan, Pivots, BitSets, Tama)}
AUTOMATIC = "auto"

SAMPLED_SUBSCRIPTIONS = 4096
SAMPLE_CELLS = 64
MAX_BIT_SET_BYTES = 1200
"""Bit sets may take so much for a subscription."""
ROW_NS = 20.0
"""To scan one row."""
ENTRY_NS = 1.5
"""To pass over one entry of the pivots."""
CHECK_NS = 60.0
"""To check one row in the table."""
WORD_NS = 250.0
"""To and one word of the bit sets through to the end."""
SUMMARY_NS = 0.3
"""To and one word of the summary of the bit sets, for one attribute."""
COUNT_NS = 20.0
"""To count one satisfied constraint, as TAMA does."""
LOOKUP_NS = 60.0
"""To look up one attribute of an event in one table."""
EVENT_NS = 500.0
"""For an event, whatever the structure."""


class Choice(NamedTuple):
    structure: type[Structure]
    why: str


def choose(table: ConstraintTable, name: str = AUTOMATIC) -> Choice:
    """The structure of this name, or the cheapest."""
    if name != AUTOMATIC:
        if name not in STRUCTURES:
            raise UnknownName("structure", name, [AUTOMATIC, *STRUCTURES], field="structure")
        return Choice(STRUCTURES[name], "as asked for")
    costs = estimates(table)
    best = min(costs, key=lambda each: costs[each])
    told = ", ".join(f"{each} {cost / 1000:,.1f}" for each, cost in sorted(costs.items(), key=lambda c: c[1]))
    return Choice(STRUCTURES[best], f"estimated microseconds an event: {told}")


def estimates(table: ConstraintTable) -> dict[str, float]:
    """Nanoseconds an event, for events that have every attribute and values like the constraints' bounds."""
    rows = len(table)
    costs = {Scan.name: ROW_NS * rows}
    width = table.width
    if not rows or not width:
        return costs
    sample = table.take(np.arange(0, rows, max(1, rows // SAMPLED_SUBSCRIPTIONS)))
    grid = boundaries(sample.attribute, sample.low, sample.high, width, SAMPLE_CELLS)
    begin, end = spans(sample.attribute, sample.low, sample.high, grid)
    used = np.isfinite(grid).sum(axis=1) + 1
    share = np.minimum((end.astype(np.float64) - begin + 1.0) / used[sample.attribute], 1.0)
    popular = np.bincount(sample.attribute, minlength=width)
    rank = np.argsort(np.argsort(-popular, kind="stable"))
    # bits to tell words apart, of which a constraint uses some for its attribute and three for its place
    told = 3.0 + np.log2(max(width * len(sample) / max(sample.constraints, 1), 1.0))
    depth = min(float(LIKENESS_CONSTRAINTS), np.log2(max(rows / WORD_BITS, 1.0)) / told)
    passed, looked, survived = _passing(sample.first, rank[sample.attribute], share, depth)
    scale = rows / len(sample)
    costs[Pivots.name] = EVENT_NS + 2 * LOOKUP_NS * width + scale * (ENTRY_NS * passed + CHECK_NS * looked)
    if width * (CELLS_PER_ATTRIBUTE + 1) / 8 <= MAX_BIT_SET_BYTES:
        costs[BitSets.name] = (
            EVENT_NS
            + LOOKUP_NS * width
            + rows / WORD_BITS / WORD_BITS * width * SUMMARY_NS
            + scale * survived / WORD_BITS * WORD_NS
        )
    counted = rows * float(share.sum()) / len(sample)
    costs[Tama.name] = EVENT_NS + 10 * LOOKUP_NS * width + counted * COUNT_NS
    return costs


@compiled
def _passing(first: Ints, rank: Ints, share: Floats, depth: float) -> tuple[float, float, float]:
    """How many rows an event meets as entries of pivots, how many of those it must check, and how many rows share a
    word with one that the `depth` constraints which decide the order of rows do not rule out."""
    passed = looked = survived = 0.0
    for row in range(first.shape[0] - 1):
        least = second = 1.0
        for k in range(first[row], first[row + 1]):
            if share[k] < least:
                least, second = share[k], least
            elif share[k] < second:
                second = share[k]
        passed += 2 * least
        looked += least * second
        kept = 1.0
        last = np.int64(-1)
        for step in range(int(np.ceil(depth))):
            best, at = np.int64(1 << 62), -1
            for k in range(first[row], first[row + 1]):
                if last < rank[k] < best:
                    best, at = rank[k], k
            if at < 0:
                break
            last = best
            kept *= min(share[at] + 1 / 8, 1.0) ** min(depth - step, 1.0)
        survived += kept
    return passed, looked, survived
