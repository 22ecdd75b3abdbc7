"""The paths of all events, each computed once and followed until a table changes.

A rule matches an interval of addresses. The ends of the rules of all switches cut the range of addresses into pieces,
and all tables treat the events of a piece alike. So a binary search and one lookup find the path of a packet, however
many switches it crosses, and there are few paths where there are few rules. The cells that hosts may send in cut the
range too, so it costs nothing more to refuse an event that its host never advertised. Packets are counted by path;
these counts are added to the counters of switches, ports and rules when somebody reads them, or when rules change.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from pleroma.errors import RoutingError
from pleroma.index.dz import MAX_LENGTH, ROOT, Dz
from pleroma.routing.admission import AdmitOp
from pleroma.routing.detour import RuleOp, SwitchOp, cell_of
from pleroma.routing.flow import Change
from pleroma.routing.topology import SwitchId
from pleroma.switches.live.path import EventPath, count_along, find_path, lookup_in
from pleroma.switches.simulated.embedded_network import EmbeddedNetwork
from pleroma.switches.simulated.simulated_table import SimulatedTable

MAX_PATHS = 100_000
"""Paths in the cache; when there are more, the cache is emptied, and the paths in use are computed again."""
MAX_SINGLE_CUTS = 64
"""New rules whose ends are inserted one by one; with more, the cuts are sorted anew."""
SORTED_AT_ONCE = 5_000
"""Numbers that a thread sorts without giving others a turn."""
ASTRAY = -1
"""The piece of packets that are no events."""


@dataclass(slots=True)
class PathCount:
    """A path, and the packets that took it since they were last added to the network's counters."""

    path: EventPath
    packets: int = 0
    bytes: int = 0
    refused: bool = False
    """The host may not send such events; the path is empty."""


@dataclass(frozen=True, slots=True)
class PreparedTables:
    """All tables after a change, with what hosts may send, and the ends of all rules."""

    tables: Mapping[SwitchId, SimulatedTable]
    admitted: list[set[Dz]]
    cuts: list[int]
    most_cuts: int
    error: RoutingError | None
    """Of the first switch that refused its part, if one did."""


class PathCache:
    """The paths through a network, whose tables must change through `install` only.

    With `guarded`, a host may send only events in cells that were admitted for it; otherwise any event.
    """

    def __init__(self, network: EmbeddedNetwork, *, guarded: bool = False) -> None:
        self._network = network
        self._lookup = lookup_in(network)
        self._guarded = guarded
        self._number = {(host.switch, host.port): n for n, host in enumerate(network.topology.hosts)}
        self._admitted: list[set[Dz]] = [set() for _ in network.topology.hosts]
        self._cuts: list[int] = []  # sorted; cuts twice, and of rules that are gone, do no harm while they are few
        self._most_cuts = 0
        self._found: list[dict[int, PathCount]] = [{} for _ in network.topology.hosts]
        self._remembered = 0
        self._cut_anew()

    def find(self, host: int, atom: int | None) -> PathCount:
        """The path of a packet from the host of this number. `atom` is the address of an event, None if it is none."""
        piece = ASTRAY if atom is None else bisect_right(self._cuts, atom)
        counted = self._found[host].get(piece)
        return self._explore(host, atom, piece) if counted is None else counted

    def _explore(self, host: int, atom: int | None, piece: int) -> PathCount:
        if self._remembered >= MAX_PATHS:
            self._forget()
        self._remembered += 1
        dz = None if atom is None else Dz(1 << MAX_LENGTH | atom)
        if dz is not None and not self.admits(host, dz):
            counted = PathCount(EventPath((), ()), refused=True)
        else:
            counted = PathCount(find_path(self._network.cables, self._lookup, host, dz))
        self._found[host][piece] = counted
        return counted

    def admits(self, host: int, dz: Dz) -> bool:
        return not self._guarded or any(cell.covers(dz) for cell in self._admitted[host])

    def admitted(self, host: int) -> Set[Dz]:
        """The cells that a host may send in."""
        return self._admitted[host] if self._guarded else {ROOT}

    def install(self, ops: Sequence[SwitchOp]) -> None:
        """Change the tables between two packets, those of each switch in one bundle.

        Raises the error of the first switch that refuses its bundle; the other switches have changed nevertheless.
        """
        self._forget()
        admissions = [op for op in ops if isinstance(op, AdmitOp)]
        for each in admissions:
            self._admit(each, self._admitted)
        rules = self._to_do(op for op in ops if not isinstance(op, AdmitOp))
        installation = self._network.install(rules, atomic=True)
        added = {op.flow.dz for op in installation.applied if op.change is Change.ADD}
        self._cut(added | {op.dz for op in admissions if op.change is Change.ADD})
        if installation.refused:
            error = installation.refused[0].error
            raise error if isinstance(error, RoutingError) else RoutingError(str(error), field="install")

    def prepare(self, ops: Sequence[SwitchOp]) -> PreparedTables:
        """What `install` would make of very many operations, while packets go on by what there is.

        It may run in another thread if nothing is installed meanwhile.
        """
        admitted = [set(cells) for cells in self._admitted]
        for op in ops:
            if isinstance(op, AdmitOp):
                self._admit(op, admitted)
        by_switch: dict[SwitchId, list[RuleOp]] = {}
        for each in self._to_do(op for op in ops if not isinstance(op, AdmitOp)):
            by_switch.setdefault(each.switch, []).append(each)
        tables = dict(self._network.tables)
        error: RoutingError | None = None
        for switch, its in by_switch.items():
            try:
                table = self._network.table(switch).copy()
                table.bundle(its)
                tables[switch] = table
            except RoutingError as refused:
                error = error or refused
        added = {cell_of(op) for op in ops if op.change is Change.ADD}
        cuts = _in_order([*self._cuts, *_in_order(_ends(added))])
        most_cuts = self._most_cuts
        if len(cuts) > most_cuts:
            cells = _cells(tables.values(), admitted)
            cuts, most_cuts = _in_order(_ends(cells)), _most_cuts(cells)
        return PreparedTables(tables, admitted, cuts, most_cuts, error)

    def exchange(self, prepared: PreparedTables) -> None:
        """Change all tables between two packets. Raises an error as `install` does."""
        self._forget()
        self._network.exchange(prepared.tables)
        self._admitted = prepared.admitted
        self._cuts, self._most_cuts = prepared.cuts, prepared.most_cuts
        if prepared.error is not None:
            raise prepared.error

    def _to_do(self, ops: Iterable[RuleOp]) -> list[RuleOp]:
        """The operations without those that delete what was never there: a rule, or an operation before on such."""
        seen: set[tuple[type[RuleOp], SwitchId, Dz]] = set()
        kept = []
        for op in ops:
            table, here = self._network.tables.get(op.switch), (type(op), op.switch, op.flow.dz)
            # an operation on a switch that is not known is refused
            if op.change is not Change.DELETE or here in seen or table is None or table.has(op):
                kept.append(op)
                seen.add(here)
        return kept

    def _admit(self, op: AdmitOp, admitted: Sequence[set[Dz]]) -> None:
        cells = admitted[self._number[op.switch, op.port]]
        if op.change is Change.DELETE:
            cells.discard(op.dz)
        else:
            cells.add(op.dz)

    def flush_counts(self) -> None:
        """Add the packets counted by path to the counters of the network."""
        for found in self._found:
            for counted in found.values():
                if counted.packets:
                    count_along(self._network, counted.path, counted.packets, counted.bytes)
                    counted.packets = counted.bytes = 0

    def _forget(self) -> None:
        self.flush_counts()
        for found in self._found:
            found.clear()
        self._remembered = 0

    def _cut(self, added: Set[Dz]) -> None:
        if len(added) > MAX_SINGLE_CUTS:
            self._cuts = sorted({*self._cuts, *_ends(added)})
        else:
            for end in _ends(added):
                place = bisect_left(self._cuts, end)
                if self._cuts[place : place + 1] != [end]:
                    self._cuts.insert(place, end)
        if len(self._cuts) > self._most_cuts:
            self._cut_anew()

    def _cut_anew(self) -> None:
        cells = _cells(self._network.tables.values(), self._admitted)
        self._cuts = sorted(_ends(cells))
        self._most_cuts = _most_cuts(cells)


def _cells(tables: Iterable[SimulatedTable], admitted: Iterable[Set[Dz]]) -> set[Dz]:
    """The cells of all rules, detours and admissions."""
    rules = {flow.dz for table in tables for flows in (table, table.detours) for flow in flows}
    return rules.union(*admitted)


def _ends(dzs: Set[Dz]) -> set[int]:
    return {end for dz in dzs for end in (dz.start, dz.end)}


def _most_cuts(cells: Set[Dz]) -> int:
    """With more cuts than this, those of rules that are gone are left out."""
    return 4 * len(cells) + MAX_SINGLE_CUTS


def _in_order(numbers: Iterable[int]) -> list[int]:
    """Numbers sorted in small steps: no other thread runs during a step. Those that are in order already are quick."""
    given = list(numbers)
    for start in range(0, len(given), SORTED_AT_ONCE):
        given[start : start + SORTED_AT_ONCE] = sorted(given[start : start + SORTED_AT_ONCE])
    given.sort()  # few runs that are in order each
    return given
