"""Which of the article's five cases of flow installation happened on a switch (Bhowmik et al. 2017, III-B.1.b).

The router does not need the cases, since it takes differences. They are derived here for people and for tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from pleroma.routing.flow import Change, FlowOp, FlowTable


class Case(IntEnum):
    """What a new flow meets on its way into a table."""

    NEW = 1  # nothing related is there: it is added
    COVERED = 2  # an existing flow already does all it would: no action
    COVERS = 3  # it does all that existing flows do: they are deleted
    PARTLY_COVERED = 4  # a shorter flow has other ports: it is added above that, with those ports too
    PARTLY_COVERS = 5  # longer flows have other ports: they get its ports as well


def cases(before: FlowTable, ops: Iterable[FlowOp]) -> frozenset[Case]:
    """The cases behind the operations that a subscription or an advertisement caused on one switch.

    A flow that replaces another of the same dz by adding ports is case 4 as well: it is partly covered by itself.
    """
    found: set[Case] = set()
    ops = list(ops)
    grown = {op.flow.dz for op in ops if op.change is not Change.DELETE}
    for op in ops:
        dz = op.flow.dz
        above = any(other != dz and other.covers(dz) for other in grown)
        if op.change is Change.DELETE:
            found.add(Case.COVERS)
        elif op.change is Change.ADD:
            found.add(Case.PARTLY_COVERED if before.covering(dz) else Case.NEW)
        else:
            found.add(Case.PARTLY_COVERS if above else Case.PARTLY_COVERED)
    return frozenset(found) or frozenset({Case.COVERED})
