"""One bit for every port of every switch: a set of ports of the whole network is one integer.

The ports of a switch are neighbouring bits, which makes "the ports of this switch" one mask.
"""

from __future__ import annotations

from collections.abc import Iterator

from pleroma.routing.flow import Output
from pleroma.routing.topology import Host, HostId, Port, Topology
from pleroma.routing.tree import Tree


class PortBits:
    """The numbers of the ports of one topology. `outputs` are cached, since the same sets of ports recur often."""

    def __init__(self, topology: Topology) -> None:
        places = [(switch, port) for switch in topology.switches for port in topology.ports[switch]]
        self.switch_at = [switch for switch, _ in places]
        self.bit = {place: 1 << i for i, place in enumerate(places)}
        self.mask = {s: sum(self.bit[s, port] for port in topology.ports[s]) for s in topology.switches}
        hosts = {(h.switch, h.port): h for h in topology.hosts}
        self._output = [_output(port, hosts.get((switch, port))) for switch, port in places]
        self._outputs: dict[int, tuple[Output, ...]] = {}

    def outputs(self, bits: int) -> tuple[Output, ...]:
        """The outputs of one switch that `bits` stand for."""
        known = self._outputs.get(bits)
        if known is None:
            known = self._outputs[bits] = tuple(self._output[i] for i in positions(bits))
        return known

    def toward(self, tree: Tree, host: HostId) -> int:
        """Every port through which the tree leads to the host: these demand what the host subscribes to."""
        return sum(self.bit[switch, port] for switch, port in tree.toward[host].items())

    def away(self, tree: Tree, host: HostId) -> int:
        """Every other port of the switches that the host reaches: its events may leave by these."""
        reached = tree.toward[host]
        return sum(self.mask[switch] for switch in reached) & ~self.toward(tree, host)


def positions(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _output(port: Port, host: Host | None) -> Output:
    return Output(port, host.address if host else None)
