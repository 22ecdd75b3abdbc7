"""Where compiled tables can lead: the lines to which the rules of each switch send, and whether these form a loop.

On a tree they form none, whatever the rules are, since no packet leaves by its port of arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import numpy as np

from pleroma.arrays.types import Marks, Words
from pleroma.routing.topology import SwitchId
from pleroma.switches.simulated.cables import Cables
from pleroma.switches.simulated.compiled_table import CompiledTable

NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Exit:
    """A port to which some rule sends, and the line at that port.

    For each group of rules: whether it sends there with the right address (`good`), or with a wrong one (`astray`; None
    if no group does).
    """

    line: int
    good: Marks
    astray: Marks | None


class Routes:
    """`target` is where each line leads: the number of a switch, or -1 minus the number of a host."""

    def __init__(self, cables: Cables, tables: Sequence[CompiledTable]) -> None:
        topology = cables.topology
        number = {switch: n for n, switch in enumerate(topology.switches)}
        self.cables = cables
        self.tables = tables
        self.target = [
            number[SwitchId(line.target)] if line.target_port is not None else -1 - (n >> 1) + len(topology.links)
            for n, line in enumerate(cables.lines)
        ]
        self.exits = [self._exits(switch, table) for switch, table in zip(topology.switches, tables, strict=True)]
        self._onward = [
            [x for x in exits if x.line != NOWHERE and self.target[x.line] >= 0 and x.good.any()]
            for exits in self.exits
        ]

    def _exits(self, switch: SwitchId, table: CompiledTable) -> list[Exit]:
        exits = []
        for port, rewrites in table.by_port().items():
            line = self.cables.leaving.get((switch, port), NOWHERE)
            host = None if line == NOWHERE else self.cables.host_behind(line)
            proper = None if host is None else host.address
            emits, good = np.zeros((2, len(table.groups)), np.bool_)
            emits[list(rewrites)] = True
            good[[group for group, rewrite in rewrites.items() if rewrite == proper or line == NOWHERE]] = True
            astray = emits & ~good
            exits.append(Exit(line, good, astray if astray.any() else None))
        return exits

    def order(self) -> dict[int, int] | None:
        """A rank for every line between switches, such that events only go to higher ranks; None if they may loop."""
        sorter: TopologicalSorter[int] = TopologicalSorter()
        for line in range(2 * len(self.cables.topology.links)):
            sorter.add(line)
            for onward in self._onward[self.target[line]]:
                if onward.line != line ^ 1:
                    sorter.add(onward.line, line)
        try:
            return {line: rank for rank, line in enumerate(sorter.static_order())}
        except CycleError:
            return None

    def loop(self, host: int, words: Sequence[Words]) -> tuple[SwitchId, ...] | None:
        """The path of one event (its words are arrays of length one) up to a switch that it passes twice, if any."""
        switches = self.cables.topology.switches
        seen: set[int] = set()
        paths: list[tuple[int, tuple[SwitchId, ...]]] = [(self.cables.uplink(host), ())]
        while paths:
            line, path = paths.pop()
            switch = self.target[line]
            if switches[switch] in path:
                return (*path, switches[switch])
            if line not in seen:
                seen.add(line)
                group = self.tables[switch].group[self.tables[switch].find(*words)[0]]
                taken = [x.line for x in self._onward[switch] if x.line != line ^ 1 and x.good[group]]
                paths += [(onward, (*path, switches[switch])) for onward in taken]
        return None
