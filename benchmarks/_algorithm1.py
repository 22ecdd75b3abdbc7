"""The article's Algorithm 1 as one would write it down: each request scans the flows of every switch on its paths.

Bhowmik et al. 2017, III-B. Two departures from the letter, both meant by its text: the overlap in line 5 is with the
subscriber's dz, and flows that the new flow makes redundant are dropped whichever case it falls under. Withdrawal,
which the article calls the reverse, takes the port out of all related flows and connects anew whoever wants them.
"""

from __future__ import annotations

from pleroma.index import Dz, DzSet
from pleroma.routing import HostId, Port, SwitchId, Topology, Tree


class ScanningController:
    def __init__(self, topology: Topology, tree: Tree) -> None:
        self.tree = tree
        self.flows: dict[SwitchId, dict[Dz, set[Port]]] = {s: {} for s in topology.switches}
        self.publishers: list[tuple[HostId, DzSet]] = []
        self.subscribers: list[tuple[HostId, DzSet]] = []

    def advertise(self, publisher: HostId, region: DzSet) -> None:
        self.publishers.append((publisher, region))
        for subscriber, wanted in self.subscribers:
            self._connect(publisher, subscriber, region, wanted)

    def subscribe(self, subscriber: HostId, region: DzSet) -> None:
        self.subscribers.append((subscriber, region))
        for publisher, offered in self.publishers:
            self._connect(publisher, subscriber, offered, region)

    def unsubscribe(self, subscriber: HostId, region: DzSet) -> None:
        self.subscribers.remove((subscriber, region))
        for switch, flows in self.flows.items():
            port = self.tree.next_port(switch, subscriber)
            for dz in [dz for dz in flows if any(dz.overlaps(gone) for gone in region)]:
                flows[dz].discard(port)
                if not flows[dz]:
                    del flows[dz]
        for other, wanted in self.subscribers:
            if wanted.overlaps(region):
                for publisher, offered in self.publishers:
                    self._connect(publisher, other, offered, wanted)

    def _connect(self, publisher: HostId, subscriber: HostId, offered: DzSet, wanted: DzSet) -> None:
        for dz in offered & wanted:
            for switch, port in self.tree.path(publisher, subscriber):
                self._add_flow(self.flows[switch], dz, port)

    def _add_flow(self, flows: dict[Dz, set[Port]], dz: Dz, port: Port) -> None:
        ports = {port}
        for other, its in flows.items():  # case 2: nothing to do; case 4: take over the ports of what covers it
            if other.covers(dz):
                if port in its:
                    return
                ports |= its
        for other in [o for o in flows if dz.covers(o) and o != dz]:  # case 3: drop; case 5: hand the port down
            if flows[other] <= ports:
                del flows[other]
            else:
                flows[other] |= ports
        flows[dz] = ports  # case 1 as well

    def lookup(self, switch: SwitchId, dz: int) -> set[Port]:
        """What a switch does with an event: the longest match."""
        flows = self.flows[switch]
        while dz:
            if dz in flows:
                return flows[Dz(dz)]
            dz >>= 1
        return set()
