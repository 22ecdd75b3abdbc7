"""Rules that no event can meet are left out: those both of whose halves are filled by longer rules.

Where subscribers want a cell as a whole and others want parts of either half, the rule of the whole stands above rules
that take all of its events. In a crowd that is every third rule. A table without them does the same, and what is left
out still depends on the demands alone. A rule comes back when one of the longer ones goes.
"""

from __future__ import annotations

from collections.abc import Iterable

from pleroma.index.longest_match import filling
from pleroma.routing.flow import Change, Flow, FlowOp, FlowTable
from pleroma.routing.topology import SwitchId


class ShadowedRules:
    """What the table of one switch leaves out, kept up to date with it.

    A cell is full if it has a rule, shown in the table or left out, or if both halves are full. `_joined` are the full
    cells without a rule.
    """

    __slots__ = ("_joined", "_left_out")

    def __init__(self) -> None:
        self._left_out: dict[int, Flow] = {}
        self._joined: set[int] = set()

    @classmethod
    def of(cls, flows: Iterable[Flow]) -> tuple[FlowTable, ShadowedRules]:
        """The table of these rules, and what it leaves out."""
        wanted = {flow.dz: flow for flow in flows}
        made, full = cls(), filling(wanted)
        made._left_out = {dz: wanted.pop(dz) for dz in full.given}
        made._joined = set[int](full.between)
        return FlowTable(wanted.values()), made

    def change(self, switch: SwitchId, table: FlowTable, wanted: Iterable[FlowOp]) -> list[FlowOp]:
        """Change the table as is wanted, at most once at each dz; the operations that really are to be made."""
        made: dict[int, FlowOp] = {}
        modified: list[FlowOp] = []  # once it is known which rules are left out
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
        """A cell has become full: a rule around it may no longer be met."""
        while dz > 1 and self._is_full(dz ^ 1, table):
            dz >>= 1
            around = table.at(dz)
            if around is not None:
                self._left_out[dz] = around
                _hide(FlowOp(switch, Change.DELETE, around), table, made)
                return
            self._joined.add(dz)

    def _empty(self, switch: SwitchId, dz: int, table: FlowTable, made: dict[int, FlowOp]) -> None:
        """A cell is no longer full: a rule around it may be met again."""
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
    """Put a rule into the table; one that went in the same step has just stayed."""
    table.put(op.flow)
    if made.pop(op.flow.dz, None) is None:
        made[op.flow.dz] = op


def _hide(op: FlowOp, table: FlowTable, made: dict[int, FlowOp]) -> None:
    """Take a rule out of the table; one that came in the same step was never there."""
    table.drop(op.flow.dz)
    if made.pop(op.flow.dz, None) is None:
        made[op.flow.dz] = op
