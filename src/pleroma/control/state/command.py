"""The commands that a controller takes, in the one form in which they are written to the log.

A command carries all that its outcome depends on, apart from the state it meets: no clock, no name that could later
stand for something else. Its JSON is canonical, so a request that is sent again has the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from pleroma.content import Filter, Schema
from pleroma.content.filter_json import from_json
from pleroma.control.state.people_commands import PEOPLE_READERS, PeopleCommand
from pleroma.control.state.plan_origin import PlanOrigin
from pleroma.control.state.tree_choice import DealtTree
from pleroma.errors import ControlError, shown
from pleroma.index import Dz, DzSet, Index, IndexPlan, index_from_json

RegistrationKind = Literal["advertisement", "subscription"]

REGISTRATION_KINDS: tuple[RegistrationKind, ...] = get_args(RegistrationKind)


@dataclass(frozen=True, slots=True)
class Begin:
    """The first entry of every log: for which network, and with which settings, the rest was accepted."""

    settings: Mapping[str, int]
    network: str

    def to_json(self) -> dict[str, Any]:
        return {"do": "begin", "settings": dict(self.settings), "network": self.network}


@dataclass(frozen=True, slots=True)
class CreateSchema:
    """The first plan is a regular grid. It may use so many `bits` and so many `members` per registration; None stands
    for the settings' default.
    """

    schema: Schema
    bits: int | None = None
    members: int | None = None

    def to_json(self) -> dict[str, Any]:
        data = {"do": "create_schema", "schema": self.schema.to_json(), "bits": self.bits}
        return data | _given(members=self.members)


@dataclass(frozen=True, slots=True)
class RemoveSchema:
    """Remove a schema that nothing is registered of, and the rights of principals that name it."""

    schema: str

    def to_json(self) -> dict[str, Any]:
        return {"do": "remove_schema", "schema": self.schema}


@dataclass(frozen=True, slots=True)
class ExtendSchema:
    """Put a later version of the schema of this name into force (`pleroma.content.schema_versions`)."""

    schema: Schema

    def to_json(self) -> dict[str, Any]:
        return {"do": "extend_schema", "schema": self.schema.to_json()}


@dataclass(frozen=True, slots=True)
class AdoptPlan:
    """Exchange the plan of a schema in one step. If `after` is given, it must be the epoch in force: otherwise somebody
    else has changed the plan that this one was to improve. Without `members`, a registration may have as many dz as by
    the plan in force.
    """

    schema: str
    index: Index
    after: int | None = None
    members: int | None = None
    origin: PlanOrigin | None = None

    def to_json(self) -> dict[str, Any]:
        layout = self.index.schema.to_json()
        data = {"do": "adopt_plan", "schema": self.schema, "layout": layout, "index": self.index.to_json()}
        return data | _given(after=self.after, members=self.members, origin=_origin(self.origin))


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """Begin to change a plan without losing an event; `Advance` goes on. `after` and `members` are as in `AdoptPlan`.

    If nothing but `members` is new, the change is over after this one step. Where two trees differ only in parts, only
    these parts change, unless all of it shall change as a `whole`: by versioning nothing is wasted then.

    With `trees`, which need versioning, events of the next version travel on these; with no tree in the list, on those
    that the policy deals out anew. The index may then be the one in force.
    """

    schema: str
    index: Index
    method: str = "lightweight"
    after: int | None = None
    members: int | None = None
    whole: bool = False
    trees: tuple[DealtTree, ...] | None = None
    origin: PlanOrigin | None = None

    def to_json(self) -> dict[str, Any]:
        plan = {"layout": self.index.schema.to_json(), "index": self.index.to_json()}
        data: dict[str, Any] = {"do": "change_plan", "schema": self.schema, "method": self.method, **plan}
        if self.trees is not None:
            data["trees"] = [each.to_json() for each in self.trees]
        rest = {"after": self.after, "members": self.members, "whole": self.whole or None}
        return data | _given(**rest, origin=_origin(self.origin))


@dataclass(frozen=True, slots=True)
class Advance:
    """Go on with a plan change: `swap` when all switches are prepared, `clear` when nobody uses the old plan."""

    schema: str
    step: str

    def to_json(self) -> dict[str, Any]:
        return {"do": "advance", "schema": self.schema, "step": self.step}


class KnownRegion(NamedTuple):
    """The region of a filter, and the index that gives it, found beforehand by the plan that was in force then."""

    kind: RegistrationKind
    prefix: Dz
    plan: IndexPlan
    found: tuple[Index, DzSet]


class CoveredFilter(NamedTuple):
    """The region of a filter by a plan: what whoever appends a command to a shared log tells those who follow the log.

    The filter was checked against the rights at `position`.
    """

    position: int
    plan: tuple[int, int]
    """The number of the schema, and the epoch of the plan."""
    region: DzSet

    def to_json(self) -> list[Any]:
        return [self.position, *self.plan, self.region.pack().hex()]

    @classmethod
    def from_json(cls, data: Any) -> CoveredFilter:
        position, number, epoch, packed = data
        plan = (_typed(int, number), _typed(int, epoch))
        return cls(_typed(int, position), plan, DzSet.unpack(bytes.fromhex(packed)))


@dataclass(frozen=True)
class Register:
    """`filter` is a filter as JSON (`content.filter_json`).

    Under a `lease`, a name that the client chose, the registration stands until the lease is not renewed; without one
    until it is withdrawn.
    """

    kind: RegistrationKind
    principal: str
    host: str
    schema: str
    filter: Any
    lease: str | None = None
    known: Filter | None = field(default=None, compare=False, repr=False)
    """The filter as whoever made the command has parsed it. It is no part of the command's JSON."""
    within: str | None = field(default=None, compare=False, repr=False)
    """A limit that the filter is known to lie within. It is no part of the command's JSON either."""
    text: str | None = field(default=None, compare=False, repr=False)
    """The filter in the filter language, if whoever made the command has it so."""
    region: KnownRegion | None = field(default=None, compare=False, repr=False)
    covered: CoveredFilter | None = field(default=None, compare=False, repr=False)
    """Its region, where several processes follow the log and one does the work for all. It is no part of the JSON."""

    @cached_property
    def boxes(self) -> str:
        """The filter as the text of its JSON. It is the long part, and wanted several times."""
        return canonical(self.filter)

    def parsed(self, schema: Schema) -> Filter:
        """The filter on its schema. It is parsed at most once, though a command is checked again when it is applied."""
        if self.known is not None and self.known.schema is schema:
            return self.known
        parsed = from_json(schema, json.loads(self.boxes))
        if self.known is not None:  # of another version of the schema: all that follows from it has to be found anew
            object.__setattr__(self, "within", None)
            object.__setattr__(self, "text", None)
        object.__setattr__(self, "known", parsed)
        return parsed

    def to_json(self) -> dict[str, Any]:
        data = {
            "do": "register",
            "kind": self.kind,
            "principal": self.principal,
            "host": self.host,
            "schema": self.schema,
            "filter": self.filter,
        }
        return data if self.lease is None else data | {"lease": self.lease}


@dataclass(frozen=True, slots=True)
class Withdraw:
    id: str
    principal: str

    def to_json(self) -> dict[str, Any]:
        return {"do": "withdraw", "id": self.id, "principal": self.principal}


@dataclass(frozen=True, slots=True)
class Expire:
    """A lease of a principal was not renewed: whatever was registered under it is withdrawn."""

    lease: str
    principal: str

    def to_json(self) -> dict[str, Any]:
        return {"do": "expire", "lease": self.lease, "principal": self.principal}


@dataclass(frozen=True, slots=True)
class LearnHost:
    """Add a host at a port of a switch, with an address of its own and the Ethernet address of its card."""

    name: str
    switch: str
    port: int
    address: str
    mac: str

    def to_json(self) -> dict[str, Any]:
        place = {"switch": self.switch, "port": self.port}
        return {"do": "learn_host", "name": self.name, **place, "address": self.address, "mac": self.mac}


@dataclass(frozen=True, slots=True)
class ForgetHost:
    """Remove a host that was learned; nothing may be registered at it any more."""

    name: str

    def to_json(self) -> dict[str, Any]:
        return {"do": "forget_host", "name": self.name}


@dataclass(frozen=True, slots=True)
class Rewire:
    """Route on what is there of the network from now on.

    `absent` are the switches that are away, `down` the ports that carry nothing, `rooms` the rules that switches turned
    out to have room for. `wiring` has the switches and links that were discovered, as topology files have them; None
    where the network was described.
    """

    absent: tuple[str, ...] = ()
    down: tuple[tuple[str, int], ...] = ()
    rooms: tuple[tuple[str, int], ...] = ()
    wiring: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"do": "rewire", "absent": list(self.absent), "down": [list(each) for each in self.down]}
        data["rooms"] = dict(self.rooms)
        return data if self.wiring is None else data | {"wiring": self.wiring}


@dataclass(frozen=True, slots=True)
class ChooseTrees:
    """Deal trees out in this way from now on. Schemas stay on their trees until their plans change by versioning."""

    trees: str

    def to_json(self) -> dict[str, Any]:
        return {"do": "choose_trees", "trees": self.trees}


@dataclass(frozen=True, slots=True)
class Lead:
    """From here on this process tells the switches what to do. What others append as leaders is refused."""

    holder: str
    """The process, for people."""
    url: str = ""
    """Where it answers requests."""
    confirming: tuple[str, int] = ("", 0)
    """Where it tells others what switches have confirmed."""

    def to_json(self) -> dict[str, Any]:
        return {"do": "lead", "holder": self.holder, "url": self.url, "confirming": list(self.confirming)}


_Value = TypeVar("_Value")


def _origin(origin: PlanOrigin | None) -> dict[str, Any] | None:
    return None if origin is None else origin.to_json()


def _given(**values: Any) -> dict[str, Any]:
    """Those of the values that are not None. What is not given is not written: earlier versions did not know it."""
    return {name: value for name, value in values.items() if value is not None}


Command = (
    Begin
    | CreateSchema
    | RemoveSchema
    | ExtendSchema
    | AdoptPlan
    | ChangePlan
    | Advance
    | PeopleCommand
    | Register
    | Withdraw
    | Expire
    | LearnHost
    | ForgetHost
    | Rewire
    | ChooseTrees
    | Lead
)


def command_from_json(data: Any) -> Command:
    """The command that `to_json` gave this JSON of."""
    if not isinstance(data, Mapping) or data.get("do") not in _READERS:
        raise ControlError("this is no command", field="do", value=data)
    try:
        return _READERS[data["do"]](data)
    except KeyError as error:
        raise ControlError("is missing", field=str(error.args[0]), value=data) from None
    except (TypeError, ValueError, AttributeError) as error:
        raise ControlError(f"this is no command: {error}", field=data["do"], value=shown(data)) from None


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Command]] = {
    **PEOPLE_READERS,
    "begin": lambda data: Begin(data["settings"], data["network"]),
    "create_schema": lambda data: CreateSchema(Schema.from_json(data["schema"]), data["bits"], data.get("members")),
    "remove_schema": lambda data: RemoveSchema(data["schema"]),
    "extend_schema": lambda data: ExtendSchema(Schema.from_json(data["schema"])),
    "adopt_plan": lambda data: AdoptPlan(
        data["schema"],
        index_from_json(Schema.from_json(data["layout"]), data["index"]),
        data.get("after"),
        data.get("members"),
        PlanOrigin.if_given(data),
    ),
    "change_plan": lambda data: ChangePlan(
        data["schema"],
        index_from_json(Schema.from_json(data["layout"]), data["index"]),
        data["method"],
        data.get("after"),
        data.get("members"),
        data.get("whole", False),
        tuple(map(DealtTree.from_json, data["trees"])) if "trees" in data else None,
        PlanOrigin.if_given(data),
    ),
    "advance": lambda data: Advance(data["schema"], data["step"]),
    "register": lambda data: Register(
        data["kind"], data["principal"], data["host"], data["schema"], data["filter"], data.get("lease")
    ),
    "withdraw": lambda data: Withdraw(data["id"], data["principal"]),
    "expire": lambda data: Expire(data["lease"], data["principal"]),
    "learn_host": lambda data: LearnHost(data["name"], data["switch"], data["port"], data["address"], data["mac"]),
    "forget_host": lambda data: ForgetHost(data["name"]),
    "rewire": lambda data: Rewire(
        tuple(_typed(str, name) for name in data["absent"]),
        tuple((_typed(str, switch), _typed(int, port)) for switch, port in data["down"]),
        tuple((_typed(str, name), _typed(int, room)) for name, room in data["rooms"].items()),
        data.get("wiring"),
    ),
    "choose_trees": lambda data: ChooseTrees(data["trees"]),
    "lead": lambda data: Lead(
        _typed(str, data["holder"]),
        _typed(str, data["url"]),
        (_typed(str, data["confirming"][0]), _typed(int, data["confirming"][1])),
    ),
}


def _typed(kind: type[_Value], value: _Value) -> _Value:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def written(command: Command) -> str:
    """The canonical JSON of a command. The filter, its long part, is not encoded again."""
    if not isinstance(command, Register):
        return canonical(command.to_json())
    named = {"host": command.host, "kind": command.kind, "lease": command.lease}
    named |= {"principal": command.principal, "schema": command.schema}
    rest = ",".join(f'"{name}":{canonical(value)}' for name, value in named.items() if value is not None)
    return f'{{"do":"register","filter":{command.boxes},{rest}}}'


_JSON = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False, check_circular=False
)


def canonical(data: Any) -> str:
    """The one text of some JSON: sorted keys, no spaces, ASCII. Values that JSON cannot express are refused."""
    try:
        return _JSON.encode(data)
    except (TypeError, ValueError, RecursionError) as error:
        raise ControlError(f"cannot be written as JSON: {error}", value=shown(data)) from None
