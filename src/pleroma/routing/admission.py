"""Who may send what into the network: at the port of a host, the cells that the host has advertised.

A switch lets an event in only where one of these covers it, so a host that publishes what it never advertised is
stopped at its own port. Of cells inside each other only the outermost is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pleroma.index.dz import Dz
from pleroma.routing.flow import Change
from pleroma.routing.topology import HostId, Port, SwitchId, Topology


class AdmitOp(NamedTuple):
    """Let events in `dz` in at a port (`ADD`), or no longer (`DELETE`)."""

    switch: SwitchId
    change: Change
    port: Port
    dz: Dz

    def __str__(self) -> str:
        return f"{self.switch}: {self.change} {self.dz} at port {self.port}"


class Admissions:
    """What each host may send, kept up to date advertisement by advertisement."""

    def __init__(self) -> None:
        self._advertised: dict[HostId, Counter[Dz]] = {}
        self._outermost: dict[HostId, set[Dz]] = {}

    def of(self, host: HostId) -> frozenset[Dz]:
        """The outermost cells, which are the rules at the host's port."""
        return frozenset(self._outermost.get(host, ()))

    def admits(self, host: HostId, dz: int) -> bool:
        cells: set[int] = self._outermost.get(host, set())  # type: ignore[assignment]  # a Dz is an int
        return any(above in cells for above in _upward(dz))

    def add(self, host: HostId, region: Iterable[Dz]) -> Changes:
        """One more advertisement of the host: which cells come, and which go because others cover them now."""
        advertised = self._advertised.setdefault(host, Counter())
        outermost = self._outermost.setdefault(host, set())
        before = set(outermost)
        for dz in region:
            advertised[dz] += 1
            if advertised[dz] == 1 and not self.admits(host, dz):
                outermost.difference_update([each for each in outermost if dz.covers(each)])
                outermost.add(dz)
        return Changes(outermost - before, before - outermost)

    def remove(self, host: HostId, region: Iterable[Dz]) -> Changes:
        """One advertisement less: what it alone had kept covered comes out again."""
        advertised, outermost = self._advertised[host], self._outermost[host]
        before = set(outermost)
        for dz in region:
            advertised[dz] -= 1
            if advertised[dz]:
                continue
            del advertised[dz]
            if dz in outermost:
                outermost.remove(dz)
                for inside in sorted((each for each in advertised if dz.covers(each)), key=lambda each: each.length):
                    if not self.admits(host, inside):
                        outermost.add(inside)
        return Changes(outermost - before, before - outermost)

    def operations(self, topology: Topology) -> list[AdmitOp]:
        """All that is admitted, as after a restart."""
        return [op for host in self._outermost for op in Changes(self.of(host), frozenset()).at(topology, host)]


class Changes(NamedTuple):
    """The cells that are admitted from now on, and those that no longer are."""

    come: set[Dz] | frozenset[Dz]
    gone: set[Dz] | frozenset[Dz]

    def at(self, topology: Topology, host: HostId) -> list[AdmitOp]:
        """In an order in which nothing that stays admitted is refused in between."""
        place = topology.host[host]
        return [
            AdmitOp(place.switch, change, place.port, dz)
            for change, cells in ((Change.ADD, self.come), (Change.DELETE, self.gone))
            for dz in sorted(cells)
        ]


def _upward(dz: int) -> Iterator[int]:
    while dz:
        yield dz
        dz >>= 1
