"""The result of forwarding a batch of events: which host received which, and how many crossed every line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pleroma.arrays.types import Ints, Ints32
from pleroma.routing.topology import SwitchId
from pleroma.switches.simulated.cables import Cables, Line


@dataclass(frozen=True, slots=True)
class Forwarding:
    """Arrays are indexed by the numbers of hosts and switches in the topology, and of lines in the cables.

    `delivered[h]` are the rows of the events that host h received, sorted and each once; arrivals beyond the first are
    in `duplicates`, those under a wrong address (not taken by the host) in `misaddressed`. `hits`, when asked for,
    counts for each switch by the order of its rules.
    """

    cables: Cables
    delivered: tuple[Ints32, ...]
    duplicates: Ints
    misaddressed: Ints
    events: Ints
    bytes: Ints
    lookups: Ints
    misses: Ints
    unconnected: Ints
    hits: Mapping[SwitchId, Ints] | None

    def rows(self, host: str) -> Ints32:
        """What one host received."""
        return self.delivered[self.cables.topology.hosts.index(self.cables.topology.find_host(host))]

    @property
    def deliveries(self) -> int:
        return sum(map(len, self.delivered))

    def by_line(self) -> Mapping[Line, tuple[int, int]]:
        """Events and bytes of every direction of every cable."""
        counts = zip(self.events.tolist(), self.bytes.tolist(), strict=True)
        return dict(zip(self.cables.lines, counts, strict=True))
