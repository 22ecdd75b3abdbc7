"""Rules that no event can match are left out of a table: longer rules fill both halves of their cells.

Where some subscribers want a cell as a whole and others want parts of either half, longer rules match all events of the
cell. With many subscribers that is every third rule. A table without the shadowed rules forwards alike, and which rules
are left out depends on the demands alone. A shadowed rule returns to the table when one of the longer rules goes.
"""

from __future__ import annotations

from collections.abc import Iterable

from pleroma.index.longest_match import filling
from pleroma.routing.flow import Change, Flow, FlowOp, FlowTable
from pleroma.routing.topology import SwitchId


class ShadowedRules:
    """The rules that the table of one switch leaves out, kept up to date with the table.

    A cell is full if it has a rule, in the table or left out, or if both of its halves are full. `_joined` are the full
    cells that have no rule.
    """

    __slots__ = ("_joined", "_left_out")

    def __init__(self) -> None:
        self._left_out: dict[int, Flow] = {}
        self._joined: set[int] = set()

    @classmethod
    def of(cls, flows: Iterable[Flow]) -> tuple[FlowTable, ShadowedRules]:
        """The table of these rules without the shadowed ones, and the shadowed ones."""
        wanted = {flow.dz: flow for flow in flows}
        made, full = cls(), filling(wanted)
        made._left_out = {dz: wanted.pop(dz) for dz in full.given}
        made._joined = set[int](full.between)
        return FlowTable(wanted.values()), made

    def change(self, switch: SwitchId, table: FlowTable, wanted: Iterable[FlowOp]) -> list[FlowOp]:
        """Carry out the wanted operations, at most one for a dz, on the table; returns the operations really made."""
        made: dict[int, FlowOp] = {}
        modified: list[FlowOp] = []  # carried out last, when it is known which rules are left out
        for op in wanted:
            dz = op.flow.dz
            if op.change is Change.MODIFY:
                modified.append(op)
            elif op.change is Change.ADD:
                if dz in self._joined:
                    self._joined.remove(dz)
                    self._left_out[dz] = op.flow
                else:
                    _show(op, table, made)
                    self._fill(switch, dz, table, made)
            elif self._left_out.pop(dz, None) is not None:
                self._joined.add(dz)
            else:
                _hide(op, table, made)
                self._empty(switch, dz, table, made)
        for op in modified:
            dz = op.flow.dz
            if dz in self._left_out:
                self._left_out[dz] = op.flow
            else:
                table.put(op.flow)
                made[dz] = FlowOp(switch, Change.ADD, op.flow) if dz in made else op
        return list(made.values())

    def _fill(self, switch: SwitchId, dz: int, table: FlowTable, made: dict[int, FlowOp]) -> None:
        """A cell has become full: leave out the rule of a cell around it that is full of longer rules now."""
        while dz > 1 and self._is_full(dz ^ 1, table):
            dz >>= 1
            around = table.at(dz)
            if around is not None:
                self._left_out[dz] = around
                _hide(FlowOp(switch, Change.DELETE, around), table, made)
                return
            self._joined.add(dz)

    def _empty(self, switch: SwitchId, dz: int, table: FlowTable, made: dict[int, FlowOp]) -> None:
        """A cell is no longer full: show the rule of a cell around it that events can match again."""
        while dz > 1:
            dz >>= 1
            if dz in self._left_out:
                _show(FlowOp(switch, Change.ADD, self._left_out.pop(dz)), table, made)
                return
            if dz not in self._joined:
                return
            self._joined.remove(dz)

    def _is_full(self, dz: int, table: FlowTable) -> bool:
        return dz in table or dz in self._left_out or dz in self._joined


def _show(op: FlowOp, table: FlowTable, made: dict[int, FlowOp]) -> None:
    """Put a rule into the table. If it was taken out in the same step, there is no operation at all."""
    table.put(op.flow)
    if made.pop(op.flow.dz, None) is None:
        made[op.flow.dz] = op


def _hide(op: FlowOp, table: FlowTable, made: dict[int, FlowOp]) -> None:
    """Take a rule out of the table. If it was put in in the same step, there is no operation at all."""
    table.drop(op.flow.dz)
    if made.pop(op.flow.dz, None) is None:
        made[op.flow.dz] = op
