"""The most rules that the switches of a network hold at any moment while their rules change.

Agents send the changes, in the bundles and in the order in which they send them to OpenFlow switches. The switches at
the other end only keep count: of what the forwarding table holds after every single change of a bundle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from pleroma.index.address import IPV6
from pleroma.routing import Change, SwitchId, SwitchOp, Topology
from pleroma.switches.openflow.agent import Agent, SwitchTimeouts
from pleroma.switches.openflow.rule import CountedRule, Key, Rule, RuleChange
from pleroma.switches.openflow.tables import FORWARDING, RuleLayout


class TablePeak(NamedTuple):
    """The rules of one switch's forwarding table: before a change, after it, and at most meanwhile."""

    before: int
    after: int
    most: int

    @property
    def extra(self) -> int:
        """Rules beyond the larger of the tables before and after."""
        return self.most - max(self.before, self.after)

    @property
    def share(self) -> float:
        """The most rules in relation to the larger of the tables before and after."""
        return self.most / max(self.before, self.after, 1)


class CountedSwitches:
    """The switches of a topology, each with its agent. To be opened with `async with`."""

    def __init__(self, topology: Topology) -> None:
        self._layout = RuleLayout(IPV6)
        self._layout.hosts = lambda: topology.hosts
        self._switches = {name: _CountingSwitch() for name in topology.switches}
        self._agents = {name: Agent(name, SwitchTimeouts(), lambda _: None) for name in topology.switches}

    async def __aenter__(self) -> Self:
        for name, agent in self._agents.items():
            agent.connected(self._switches[name])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for agent in self._agents.values():
            agent.close()

    async def install(self, ops: Sequence[SwitchOp]) -> None:
        """Have the agents carry out these operations."""
        by_switch: dict[SwitchId, list[SwitchOp]] = {}
        for op in ops:
            by_switch.setdefault(op.switch, []).append(op)
        for name, mine in by_switch.items():
            self._agents[name].want(map(self._layout.change, mine))
        await asyncio.gather(*(self._agents[name].confirmed() for name in by_switch))

    def begin(self) -> None:
        """Count for a new change from now on."""
        for switch in self._switches.values():
            switch.before = switch.most = switch.held

    @property
    def peaks(self) -> Mapping[SwitchId, TablePeak]:
        """By switch, since the last `begin`; switches that had and have no rules are left out."""
        found = {name: TablePeak(each.before, each.held, each.most) for name, each in self._switches.items()}
        return {name: peak for name, peak in found.items() if peak.most}


class _CountingSwitch:
    """A switch that takes every bundle."""

    def __init__(self) -> None:
        self.before = self.most = self.held = 0
        self._rules: dict[Key, Rule] = {}

    async def commit(self, changes: Sequence[RuleChange], timeout: float) -> None:  # noqa: ARG002
        for change, rule in changes:
            if change is Change.DELETE:
                del self._rules[rule.key]
            else:
                self._rules[rule.key] = rule
            if rule.table == FORWARDING and change is not Change.MODIFY:
                self.held += 1 if change is Change.ADD else -1
                self.most = max(self.most, self.held)

    async def flows(self, *_: object) -> list[CountedRule | None]:
        return [CountedRule(rule, 0, 0) for rule in self._rules.values()]

    async def wipe(self, *_: object) -> None:
        self._rules.clear()
        self.held = 0

    def close(self) -> None:
        pass


def peaks_through(
    topology: Topology, standing: Sequence[SwitchOp], steps: Sequence[Sequence[SwitchOp]]
) -> Mapping[SwitchId, TablePeak]:
    """From the rules that `standing` adds through all steps of a change, each confirmed before the next."""

    async def run() -> Mapping[SwitchId, TablePeak]:
        async with CountedSwitches(topology) as switches:
            await switches.install(standing)
            switches.begin()
            for ops in steps:
                await switches.install(ops)
            return switches.peaks

    return asyncio.run(run())
