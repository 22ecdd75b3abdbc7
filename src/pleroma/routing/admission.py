"""Which events each host may send into the network: those in the cells that the host has advertised.

The switch of a host admits an event at the host's port only if one of these cells covers it, so events that a host
publishes without having advertised them go no further. Of nested cells only the outermost needs a rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pleroma.index.dz import Dz
from pleroma.routing.flow import Change, in_safe_order
from pleroma.routing.topology import HostId, Port, SwitchId, Topology


class AdmitOp(NamedTuple):
    """Admit events in `dz` at a port of a switch (`ADD`), or no longer (`DELETE`)."""

    switch: SwitchId
    change: Change
    port: Port
    dz: Dz

    @property
    def depth(self) -> int:
        return self.dz.bit_length()

    def __str__(self) -> str:
        return f"{self.switch}: {self.change} {self.dz} at port {self.port}"


class Admissions:
    """The cells that each host may send in, kept up to date with its advertisements."""

    def __init__(self) -> None:
        self._advertised: dict[HostId, Counter[Dz]] = {}
        self._outermost: dict[HostId, set[Dz]] = {}

    def of(self, host: HostId) -> frozenset[Dz]:
        """The outermost cells of a host's advertisements, which are the rules at its port."""
        return frozenset(self._outermost.get(host, ()))

    def admits(self, host: HostId, dz: int) -> bool:
        cells: set[int] = self._outermost.get(host, set())  # type: ignore[assignment]  # a Dz is an int
        return any(above in cells for above in _upward(dz))

    def meets(self, host: HostId, region: Iterable[Dz]) -> bool:
        """Whether a host may send any event in a region. It takes a step for every cell that the host may send in."""
        cells: set[int] = set(region)
        outermost = self._outermost.get(host, ())
        return any(self.admits(host, dz) for dz in cells) or any(
            above in cells for dz in outermost for above in _upward(dz)
        )

    def cells_of(self, host: HostId) -> int:
        """How many rules there are at the port of a host."""
        return len(self._outermost.get(host, ()))

    def add(self, host: HostId, region: Iterable[Dz]) -> AdmissionChanges:
        """Add an advertisement of a host. Cells that the new ones cover go."""
        advertised = self._advertised.setdefault(host, Counter())
        outermost = self._outermost.setdefault(host, set())
        before = set(outermost)
        for dz in region:
            advertised[dz] += 1
            if advertised[dz] == 1 and not self.admits(host, dz):
                outermost.difference_update([each for each in outermost if dz.covers(each)])
                outermost.add(dz)
        return AdmissionChanges(outermost - before, before - outermost)

    def remove(self, host: HostId, region: Iterable[Dz]) -> AdmissionChanges:
        """Remove an advertisement of a host. Cells that only it had covered come back."""
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
        return AdmissionChanges(outermost - before, before - outermost)

    def operations(self, topology: Topology) -> list[AdmitOp]:
        """The operations that admit everything on switches that have no rules, as after a restart."""
        return [
            op for host in self._outermost for op in AdmissionChanges(self.of(host), frozenset()).at(topology, host)
        ]


class AdmissionChanges(NamedTuple):
    """The cells that are admitted from now on, and the cells that no longer are."""

    come: set[Dz] | frozenset[Dz]
    gone: set[Dz] | frozenset[Dz]

    def at(self, topology: Topology, host: HostId) -> list[AdmitOp]:
        """As operations at a host's port, in an order in which no event that stays admitted is refused meanwhile."""
        place = topology.host[host]
        return in_safe_order(
            AdmitOp(place.switch, change, place.port, dz)
            for change, cells in ((Change.ADD, self.come), (Change.DELETE, self.gone))
            for dz in sorted(cells)
        )


def _upward(dz: int) -> Iterator[int]:
    while dz:
        yield dz
        dz >>= 1
