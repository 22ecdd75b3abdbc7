"""What every port of a tree demands, kept up to date request by request, and the flow operations that follow.

The port of switch u towards switch v demands *the subscriptions behind v, intersected with the advertisements behind
u*. One trie of cells holds all demands of all switches. Each cell has two sets of ports, as bits: those behind which a
subscription covers the cell, and those across which an advertisement covers it. A port that is in both sets demands the
cell. A switch has a rule at exactly those cells which one of its ports demands while it does not demand the cell above
(`shadowed_rules` leaves some of these out). A request changes the bits of a few cells, however many switches there are;
the flow operations are the difference. The five cases of flow installation, upgrades and downgrades (Bhowmik et al.
2017, III-B) all follow from that one rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from pleroma.index.dz import ROOT, Dz
from pleroma.index.dzset import DzSet
from pleroma.routing.covered_by_own import CoveredByOwn
from pleroma.routing.flow import Change, Flow, FlowOp
from pleroma.routing.outermost import outermost
from pleroma.routing.port_bits import PortBits
from pleroma.routing.topology import HostId, SwitchId

SUBSCRIPTIONS, ADVERTISEMENTS = 0, 1
"""The two sides of a demand."""
OWN, WITHIN, COVERED = 0, 2, 4
"""Where the three port sets of a cell begin in its list; each has an entry for either side."""

MAX_SEARCHED_CELLS = 10_000
"""Cells among which `serving` looks, which takes some 10 ms; a request must not hold up the others."""

MANY_CELLS = 16
"""So many changed cells, or more, are likely to change in the same ports: it pays to remember of which switches."""

Holder = tuple[int, HostId]
"""A host, and which of its two sides holds a cell: its subscriptions or its advertisements."""


class _Cell:
    """A node of the trie. There are many nodes, so each is few objects: its port sets are integers in one list.

    For each side the list has the ports that registrations of exactly this cell concern (`OWN`), the ports for which
    registrations in this cell fill the cell (`WITHIN`), and the ports for which any registrations cover the cell
    (`COVERED`). `holders` counts the registrations of exactly this cell by holder. `inside` has the registrations of a
    holder of this cell that lie inside the cell: they change no table for as long as the holder holds the cell.
    """

    __slots__ = ("dz", "high", "holders", "inside", "low", "parent", "ports")

    def __init__(self, dz: Dz, parent: _Cell | None) -> None:
        self.dz = dz
        self.parent = parent
        self.low: _Cell | None = None
        self.high: _Cell | None = None
        self.holders: dict[Holder, int] | None = None
        self.inside: dict[Holder, CoveredByOwn] | None = None
        inherited = parent.ports[COVERED:] if parent else [0, 0]
        self.ports: list[int] = [0, 0, 0, 0, *inherited]

    @property
    def demand(self) -> int:
        ports = self.ports
        return ports[COVERED] & ports[COVERED + 1]

    @property
    def demand_above(self) -> int:
        if self.parent is None:
            return 0
        ports = self.parent.ports
        return ports[COVERED] & ports[COVERED + 1]

    def full_within(self, side: int) -> int:
        """The ports for which the cell is full: it was registered as a whole, or both of its halves are full."""
        within, low, high = self.ports[OWN + side], self.low, self.high
        if low is not None and high is not None and low.dz ^ high.dz == 1:
            within |= low.ports[WITHIN + side] & high.ports[WITHIN + side]
        return within

    def half(self, side: int) -> _Cell | None:
        return self.high if side else self.low

    def set_half(self, side: int, cell: _Cell | None) -> None:
        if side:
            self.high = cell
        else:
            self.low = cell


class Demands:
    """The demands on one tree. `reach` has for each host the ports that its subscriptions and its events concern."""

    def __init__(self, ports: PortBits, reach: Mapping[HostId, tuple[int, int]]) -> None:
        self._ports = ports
        self._reach = reach
        self._root = _Cell(ROOT, None)
        self._held: Counter[Holder] = Counter()
        """How many cells each holder has registered."""
        self._touched: dict[_Cell, tuple[int, int]] = {}  # the (demand, demand above) of a cell before the request

    def add(self, side: int, host: HostId, cells: Iterable[Dz]) -> None:
        holder = side, host
        for dz in cells:
            self._held[holder] += 1
            self._add(holder, dz)

    def _add(self, holder: Holder, dz: Dz) -> None:
        if (above := self._held_above(holder, dz)) is not None:
            _count_inside(above, holder, dz)
            return
        side, host = holder
        cell = self._materialise(dz)
        self._touch(cell)
        if cell.holders is None:
            cell.holders = {}
        count = cell.holders.get(holder, 0)
        cell.holders[holder] = count + 1
        if not count:
            self._set_own(cell, side, cell.ports[OWN + side] | self._reach[host][side])

    def load(self, registered: Iterable[tuple[int, HostId, DzSet]]) -> None:
        """Add many registrations in one pass over all cells. Take the tables from `flows` afterwards, not `changes`."""
        regions: dict[Holder, list[bytes]] = {}
        for side, host, region in registered:
            regions.setdefault((side, host), []).append(region.pack())
            self._held[side, host] += len(region)
        for (side, host), packed in regions.items():
            for outer in outermost(b"".join(packed)):
                cell = self._materialise(outer.dz)
                if cell.holders is None:
                    cell.holders = {}
                cell.holders[side, host] = outer.times
                cell.ports[OWN + side] |= self._reach[host][side]
                if outer.inside:
                    if cell.inside is None:
                        cell.inside = {}
                    cell.inside[side, host] = CoveredByOwn(outer.inside)
        cells = list(self._cells())
        for cell in reversed(cells):
            for side in (SUBSCRIPTIONS, ADVERTISEMENTS):
                cell.ports[WITHIN + side] = cell.full_within(side)
        for cell in cells:
            for side in (SUBSCRIPTIONS, ADVERTISEMENTS):
                inherited = cell.parent.ports[COVERED + side] if cell.parent else 0
                cell.ports[COVERED + side] = cell.ports[WITHIN + side] | inherited
        self.forget_changes()

    def remove(self, side: int, host: HostId, cells: Iterable[Dz]) -> None:
        for dz in cells:
            self._remove((side, host), dz)

    def _remove(self, holder: Holder, dz: Dz) -> None:
        self._held[holder] -= 1
        if self._remove_inside(holder, dz):
            return
        cell = self._materialise(dz)
        self._touch(cell)
        holders = cell.holders or {}
        holders[holder] -= 1
        if holders[holder]:
            return
        del holders[holder]
        own, (side, _) = 0, holder
        for its, other in holders:
            if its == side:
                own |= self._reach[other][side]
        self._set_own(cell, side, own)
        if cell.inside and holder in cell.inside:
            for inner, count in cell.inside.pop(holder).all().items():
                for _ in range(count):
                    self._add(holder, inner)

    def _held_above(self, holder: Holder, dz: Dz) -> _Cell | None:
        """The largest cell that covers `dz`, other than `dz` itself, and that the holder has registered."""
        cell: _Cell | None = self._root
        length = dz.bit_length()
        while cell is not None:
            below = length - cell.dz.bit_length() - 1
            if below < 0 or dz >> below + 1 != cell.dz:
                return None
            if cell.holders and holder in cell.holders:
                return cell
            cell = cell.high if dz >> below & 1 else cell.low
        return None

    def _remove_inside(self, holder: Holder, dz: Dz) -> bool:
        for cell in self._around(dz):
            if cell.inside and holder in cell.inside and cell.inside[holder].count(dz):
                cell.inside[holder].change(dz, -1)
                return True
        return False

    def _around(self, dz: Dz) -> Iterator[_Cell]:
        """The cells of the trie that cover `dz`, other than `dz` itself; the largest first."""
        cell: _Cell | None = self._root
        length = dz.bit_length()
        while cell is not None:
            depth = cell.dz.bit_length()
            if depth >= length or dz >> length - depth != cell.dz:
                return
            yield cell
            cell = cell.high if dz >> length - depth - 1 & 1 else cell.low

    def serving(self, side: int, host: HostId, region: DzSet, among: Iterable[SwitchId]) -> set[SwitchId]:
        """Which of these switches lie between a host, where a region is held on one side, and hosts with a part of the
        region on the other side.

        A switch lies between two hosts if its port towards one is not its port towards the other. Where there are very
        many cells to look at, those that have not been ruled out by then are taken to be between.
        """
        masks, other = self._ports.mask, COVERED + 1 - side
        sought = sum(masks.get(switch, 0) for switch in set(among)) & self._reach[host][side] & self._reached(1 - side)
        found: set[SwitchId] = set()
        searched = 0
        for dz in region:
            if not sought:
                return found
            for cell in self._meeting(dz):
                searched += 1
                if searched > MAX_SEARCHED_CELLS:
                    return found.union(self._switches(sought))
                for switch in self._switches(cell.ports[other] & sought):
                    found.add(switch)
                    sought &= ~masks[switch]
                if not sought:
                    return found
        return found

    def _reached(self, side: int) -> int:
        """The ports that any registrations of a side concern."""
        ports = 0
        for (its, host), count in self._held.items():
            if its == side and count:
                ports |= self._reach[host][side]
        return ports

    def _meeting(self, dz: Dz) -> Iterator[_Cell]:
        """Cells of the trie that have, together, every registration that meets `dz`: the smallest cell that covers it,
        and all smaller ones.
        """
        if dz == ROOT:
            yield from self._cells()
            return
        *_, around = self._around(dz)
        yield around
        below = around.half(dz >> dz.bit_length() - around.dz.bit_length() - 1 & 1)
        if below is not None and dz.covers(below.dz):
            yield from self._cells(below)

    def flows(self) -> Iterator[tuple[SwitchId, Flow]]:
        """Every rule of every switch, by the definition, shadowed rules among them."""
        for cell in self._cells():
            demand = cell.demand
            for switch in self._switches(demand ^ cell.demand_above):
                yield switch, Flow(cell.dz, self._ports.outputs(demand & self._ports.mask[switch]))

    def changes(self) -> list[FlowOp]:
        """The flow operations since the last call, in no particular order."""
        ops: list[FlowOp] = []
        if not self._touched:
            return ops
        switch_at, masks, outputs = self._ports.switch_at, self._ports.mask, self._ports.outputs
        is_many = len(self._touched) >= MANY_CELLS
        around: dict[int, int] = {}  # all ports of the switches that have these; many cells change in the same ports
        for cell, (was, was_above) in self._touched.items():
            now = cell.demand
            had, has = was ^ was_above, now ^ cell.demand_above
            ruled = had | has
            if not ruled:
                continue
            bits = had ^ has | was ^ now
            if is_many:  # look only at switches that have a rule here
                ports = around.get(bits)
                if ports is None:
                    ports = around[bits] = sum(masks[switch] for switch in self._switches(bits))
                bits = ports & ruled
            while bits:
                switch = switch_at[(bits & -bits).bit_length() - 1]
                mask = masks[switch]
                bits ^= bits & mask
                if has & mask:
                    if not had & mask:
                        ops.append(FlowOp(switch, Change.ADD, Flow(cell.dz, outputs(now & mask))))
                    elif (was ^ now) & mask:
                        ops.append(FlowOp(switch, Change.MODIFY, Flow(cell.dz, outputs(now & mask))))
                elif had & mask:
                    ops.append(FlowOp(switch, Change.DELETE, Flow(cell.dz, outputs(was & mask))))
        self.forget_changes()
        return ops

    def forget_changes(self) -> None:
        """Forget what changed since the last call of `changes`, and take cells out of the trie that are not needed."""
        touched, self._touched = self._touched, {}
        for cell in touched:
            if not cell.holders and (cell.low is None or cell.high is None):
                self._prune(cell)

    def _cells(self, top: _Cell | None = None) -> Iterator[_Cell]:
        """All cells, or those in one of them."""
        stack = [top or self._root]
        while stack:
            cell = stack.pop()
            yield cell
            if cell.low is not None:
                stack.append(cell.low)
            if cell.high is not None:
                stack.append(cell.high)

    def _switches(self, bits: int) -> Iterator[SwitchId]:
        """The switches that these ports belong to."""
        switch_at, mask = self._ports.switch_at, self._ports.mask
        while bits:
            switch = switch_at[(bits & -bits).bit_length() - 1]
            yield switch
            bits ^= bits & mask[switch]

    def _materialise(self, dz: Dz) -> _Cell:
        """The cell of `dz`, which is made if it is not there. Making it, and a branching point, changes no demand."""
        cell = self._root
        length = dz.bit_length()
        while cell.dz != dz:
            side = dz >> length - cell.dz.bit_length() - 1 & 1
            child = cell.high if side else cell.low
            if child is None:
                return self._insert(dz, cell, side)
            depth = child.dz.bit_length()
            if depth <= length and dz >> length - depth == child.dz:
                cell = child
                continue
            shorter = min(depth, length)
            here, there = dz >> length - shorter, child.dz >> depth - shorter
            apart = (here ^ there).bit_length()  # 0 when dz is a prefix of the child
            cell = self._insert(Dz(here >> apart), cell, side)
            cell.set_half(child.dz >> depth - cell.dz.bit_length() - 1 & 1, child)
            child.parent = cell
        return cell

    def _insert(self, dz: Dz, parent: _Cell, side: int) -> _Cell:
        cell = _Cell(dz, parent)
        parent.set_half(side, cell)
        return cell

    def _set_own(self, cell: _Cell, side: int, own: int) -> None:
        if own == cell.ports[OWN + side]:
            return
        cell.ports[OWN + side] = own
        changed = []
        above: _Cell | None = cell
        while above is not None:
            within = above.full_within(side)
            if within == above.ports[WITHIN + side]:
                break
            above.ports[WITHIN + side] = within
            changed.append(above)
            above = above.parent
        for top in reversed(changed):
            self._spread(top, side)

    def _spread(self, top: _Cell, side: int) -> None:
        """Pass the covering ports of a cell down to the cells below, as far as that changes them."""
        self._touch(top)
        touched, its, others = self._touched, COVERED + side, COVERED + 1 - side
        stack = [top]
        while stack:
            cell = stack.pop()
            ports = cell.ports
            was = ports[its]
            covered = ports[WITHIN + side] | cell.parent.ports[its] if cell.parent else ports[WITHIN + side]
            if covered == was:
                continue
            demand = was & ports[others]
            for half in (cell.low, cell.high):
                if half is not None:
                    if half not in touched:
                        touched[half] = half.ports[its] & half.ports[others], demand
                    stack.append(half)
            ports[its] = covered

    def _touch(self, cell: _Cell) -> None:
        if cell not in self._touched:
            self._touched[cell] = cell.demand, cell.demand_above

    def _prune(self, cell: _Cell) -> None:
        """Take a cell, and those above it, out of the trie where no registration and no branching needs them."""
        while cell.parent is not None and not cell.holders:
            if cell.low is not None and cell.high is not None:
                return
            parent, heir = cell.parent, cell.low or cell.high
            side = cell.dz >> cell.dz.bit_length() - parent.dz.bit_length() - 1 & 1
            if parent.half(side) is not cell:
                return  # already taken out
            parent.set_half(side, heir)
            if heir is not None:
                heir.parent = parent
                return
            cell = parent


def _count_inside(cell: _Cell, holder: Holder, dz: Dz) -> None:
    if cell.inside is None:
        cell.inside = {}
    covered = cell.inside.get(holder)
    if covered is None:
        covered = cell.inside[holder] = CoveredByOwn()
    covered.change(dz, 1)
