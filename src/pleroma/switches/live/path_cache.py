"""The ways of all events, each found once and followed until a table changes.

A rule is an interval of addresses. Cut at both ends of every rule of every switch, the range falls into pieces in which
all tables treat all events alike: a binary search and one lookup tell the way of a packet, however many switches it
crosses, and there are few ways where there are few rules. What a host may send is cut in the same path, so to refuse an
event that its host never advertised costs nothing either. Packets are added up by path, and the counters of switches,
ports and rules are brought up to date when somebody looks, or when the rules that forwarded them change.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence, Set
from dataclasses import dataclass

from pleroma.errors import RoutingError
from pleroma.index.dz import MAX_LENGTH, Dz
from pleroma.routing.admission import AdmitOp
from pleroma.routing.detour import RuleOp, SwitchOp
from pleroma.routing.flow import Change
from pleroma.switches.live.path import EventPath, count_along, find_path
from pleroma.switches.simulated.embedded_network import EmbeddedNetwork

MAX_PATHS = 100_000
"""Ways to remember; when there are more, all are forgotten and those in use found again."""
MAX_SINGLE_CUTS = 64
ASTRAY = -1


@dataclass(slots=True)
class PathCount:
    """A path, and what has gone it since the counters were brought up to date."""

    path: EventPath
    packets: int = 0
    bytes: int = 0
    refused: bool = False
    """The host may not send such events: this is a way to nowhere."""


class PathCache:
    """`network` holds the tables and the counters; its tables are to be changed through `install`.

    With `guarded`, a host may send only what it was admitted for; otherwise anything.
    """

    def __init__(self, network: EmbeddedNetwork, *, guarded: bool = False) -> None:
        self._network = network
        self._guarded = guarded
        self._number = {(host.switch, host.port): n for n, host in enumerate(network.topology.hosts)}
        self._admitted: list[set[Dz]] = [set() for _ in network.topology.hosts]
        self._cuts: list[int] = []  # sorted; more of them than there are ends of rules do no harm
        self._found: list[dict[int, PathCount]] = [{} for _ in network.topology.hosts]
        self._remembered = 0
        self._cut_anew()

    def find(self, host: int, atom: int | None) -> PathCount:
        """For a packet from this host; the address of an event is its atom, that of anything else is None."""
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
            counted = PathCount(find_path(self._network.cables, self._network.tables, host, dz))
        self._found[host][piece] = counted
        return counted

    def admits(self, host: int, dz: Dz) -> bool:
        return not self._guarded or any(cell.covers(dz) for cell in self._admitted[host])

    def install(self, ops: Sequence[SwitchOp]) -> None:
        """Change the tables between two packets, each switch by one bundle.

        Raises what the first switch that refuses its bundle says; the other switches have changed nevertheless.
        """
        self._forget()
        rules: list[RuleOp] = []
        admissions: list[AdmitOp] = []
        for op in ops:
            if isinstance(op, AdmitOp):
                admissions.append(op)
            else:
                rules.append(op)
        for each in admissions:
            self._admit(each)
        installation = self._network.install(rules, atomic=True)
        added = {op.flow.dz for op in installation.applied if op.change is Change.ADD}
        self._cut(added | {op.dz for op in admissions if op.change is Change.ADD})
        if installation.refused:
            error = installation.refused[0].error
            raise error if isinstance(error, RoutingError) else RoutingError(str(error), field="install")

    def _admit(self, op: AdmitOp) -> None:
        cells = self._admitted[self._number[op.switch, op.port]]
        if op.change is Change.DELETE:
            cells.discard(op.dz)
        else:
            cells.add(op.dz)

    def flush_counts(self) -> None:
        """Bring the network's counters up to date."""
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
        if len(self._cuts) > 4 * len(self._cells()) + MAX_SINGLE_CUTS:
            self._cut_anew()

    def _cut_anew(self) -> None:
        self._cuts = sorted(_ends(self._cells()))

    def _cells(self) -> set[Dz]:
        """All that any rule is about."""
        tables = self._network.tables.values()
        rules = {flow.dz for table in tables for flows in (table, table.detours) for flow in flows}
        return rules.union(*self._admitted)


def _ends(dzs: Set[Dz]) -> set[int]:
    return {end for dz in dzs for end in (dz.start, dz.end)}
