"""A controller without a service, for figures of plan changes: its state, and the rules it gives to the switches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pleroma.content import Filter, Schema
from pleroma.content.filter_json import to_json
from pleroma.control import (
    Advance,
    ChangePlan,
    Command,
    CommandRefused,
    ControlSettings,
    ControlState,
    CreatePrincipal,
    CreateSchema,
    Register,
)
from pleroma.index import DzSet, Index
from pleroma.routing import FlowTable, SwitchId, SwitchOp, Topology

ADMIN_PRINCIPAL = "admin"


class OneSchemaController:
    """The state of a controller with one schema, whose events every host publishes. It changes plans step by step."""

    def __init__(self, topology: Topology, schema: Schema, bits: int, members: int, prefix_bits: int = 1) -> None:
        length = prefix_bits + bits
        settings = ControlSettings(schema_bits=prefix_bits, max_members=members, default_bits=bits, max_length=length)
        self.topology = topology
        self.state = ControlState(topology, settings)
        self._schema = schema
        self._position = 0
        self._do(CreateSchema(schema))
        self._do(CreatePrincipal(ADMIN_PRINCIPAL, "admin", "0" * 64))
        for host in topology.hosts:
            self._register("advertisement", host.name, Filter.everything(schema))

    def subscribe(self, wanted: Iterable[Filter], homes: Iterable[int]) -> None:
        hosts = [host.name for host in self.topology.hosts]
        for each, home in zip(wanted, homes, strict=True):
            self._register("subscription", hosts[home], each)

    def begin(self, index: Index, method: str) -> list[SwitchOp]:
        """Take the first step to another plan. Returns what the switches have to do."""
        return self._do(ChangePlan(self._schema.name, index, method))

    def advance(self, step: str) -> list[SwitchOp]:
        return self._do(Advance(self._schema.name, step))

    def change(self, index: Index, method: str) -> list[list[SwitchOp]]:
        """Take all steps to another plan. Returns what the switches have to do in each."""
        return [self.begin(index, method), self.advance("swap"), self.advance("clear")]

    @property
    def tables(self) -> Mapping[SwitchId, FlowTable]:
        return tables_in_force(self.state)

    def _register(self, kind: str, host: str, wanted: Filter) -> None:
        kinds: Mapping[str, Command] = {
            each: Register(each, ADMIN_PRINCIPAL, host, self._schema.name, to_json(wanted))
            for each in ("advertisement", "subscription")
        }
        self._do(kinds[kind])

    def _do(self, command: Command) -> list[SwitchOp]:
        self._position += 1
        result = self.state.apply(self._position, command)
        if isinstance(result, CommandRefused):
            raise result.error
        return result.switch_ops


def tables_in_force(state: ControlState) -> Mapping[SwitchId, FlowTable]:
    """The rules that events follow: a detour hides the ordinary rules that it covers."""
    detours, rules = state.rules.detours.tables, state.router.tables
    return {switch: _below(detours[switch], rules[switch]) for switch in rules}


def _below(detours: FlowTable, rules: FlowTable) -> FlowTable:
    area = DzSet(flow.dz for flow in detours)
    return FlowTable([*(flow for flow in rules if not area.covers(flow.dz)), *detours]) if area else rules
