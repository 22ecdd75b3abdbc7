"""A small network, two schemas and a few people, for the tests of the control plane."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from pleroma.content import Category, Filter, Integer, Schema
from pleroma.content.filter_json import to_json
from pleroma.control import Command, ControlSettings, ControlState, CreatePrincipal, CreateSchema, Done, Register
from pleroma.control.state.command import Begin
from pleroma.control.state.network_rules import request_of
from pleroma.routing import AdmitOp, FlowOp, FlowTable, HostId, SwitchId, Topology, build
from pleroma.routing.router import Router

LINE = build("line:3")  # h1 - h2 - h3
WEATHER = Schema("weather", (Integer("temperature", False, 0, 15), Integer("wind", False, 0, 7)))
TRAFFIC = Schema("traffic", (Integer("speed", False, 0, 15), Category("road", True, ("a1", "a2", "a3"))))
SMALL = ControlSettings(schema_bits=2, max_members=4, default_bits=7, max_length=20)
DIGEST = hashlib.sha256(hashlib.sha256(b"a token").digest()).hexdigest()

ANN = CreatePrincipal("ann", "admin", DIGEST)
PAT = CreatePrincipal("pat", "publisher", DIGEST, publish={"weather": "wind < 4"})
SUE = CreatePrincipal("sue", "subscriber", DIGEST, read={"weather": "temperature < 8"}, subscriptions=2)
BEN = CreatePrincipal("ben", "both", DIGEST, publish={"*": "true"}, read={"*": "true", "traffic": "speed > 3"})


class Network:
    """Takes all that it is told, and keeps it as it came."""

    def __init__(self) -> None:
        self.ops: list[FlowOp] = []
        self.admitted: list[AdmitOp] = []

    async def install(self, ops: Iterable[object]) -> None:
        self.ops += [op for op in ops if isinstance(op, FlowOp)]
        self.admitted += [op for op in ops if isinstance(op, AdmitOp)]


def boxes(schema: Schema, text: str) -> list[Any]:
    return to_json(Filter.parse(schema, text))


def advertise(who: str, text: str, host: str = "h1", schema: Schema = WEATHER, lease: str | None = None) -> Register:
    return Register("advertisement", who, HostId(host), schema.name, boxes(schema, text), lease)


def subscribe(who: str, text: str, host: str = "h3", schema: Schema = WEATHER, lease: str | None = None) -> Register:
    return Register("subscription", who, HostId(host), schema.name, boxes(schema, text), lease)


def state_after(*commands: Command, topology: Topology = LINE, settings: ControlSettings = SMALL) -> ControlState:
    """A state in which all of these were carried out, from position 1 on."""
    state = ControlState(topology, settings)
    for position, command in enumerate(commands, 1):
        result = state.apply(position, command)
        assert isinstance(result, Done), result
    return state


def peopled(*commands: Command) -> ControlState:
    """The two schemas at positions 1 and 2, the people at 3 to 6, then the commands."""
    return state_after(CreateSchema(WEATHER), CreateSchema(TRAFFIC), ANN, PAT, SUE, BEN, *commands)


def fresh_tables(state: ControlState) -> Mapping[SwitchId, FlowTable]:
    """What a router that knows nothing else makes of the regions."""
    router = Router(state.topology, max_length=state.settings.max_length)
    for registered in state.registrations.values():
        router.apply(request_of(registered))
    return router.tables


def begin(state: ControlState) -> Begin:
    return Begin(state.settings.to_json(), state.network)
