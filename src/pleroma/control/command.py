"""What the controller can be told, in the one form in which it is written to the log.

A command carries all that its outcome depends on, apart from the state it meets: no clock, no name that could later
stand for something else. Its JSON is canonical, so a request that is sent again has the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pleroma.content import Schema
from pleroma.errors import ControlError, shown
from pleroma.index import Index, index_from_json

Role = Literal["admin", "publisher", "subscriber", "both"]
Kind = Literal["advertisement", "subscription"]

ROLES: tuple[Role, ...] = get_args(Role)
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Begin:
    """The first entry of every log: for which network, and with which settings, the rest was accepted."""

    settings: Mapping[str, int]
    network: str

    def to_json(self) -> dict[str, Any]:
        return {"do": "begin", "settings": dict(self.settings), "network": self.network}


@dataclass(frozen=True, slots=True)
class CreateSchema:
    """`bits` is how many the first plan, a regular grid, may use; None leaves it to the settings."""

    schema: Schema
    bits: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {"do": "create_schema", "schema": self.schema.to_json(), "bits": self.bits}


@dataclass(frozen=True, slots=True)
class AdoptPlan:
    schema: str
    index: Index

    def to_json(self) -> dict[str, Any]:
        layout = self.index.schema.to_json()
        return {"do": "adopt_plan", "schema": self.schema, "layout": layout, "index": self.index.to_json()}


@dataclass(frozen=True, slots=True)
class CreatePrincipal:
    """`digest` is the SHA-256 of the token, in hex. `publish` and `read` give, by schema, the filter to stay within.

    What is not listed is not allowed, except to an admin; `"*": "true"` allows everything of every schema that is not
    listed by name.
    """

    name: str
    role: Role
    digest: str
    publish: Mapping[str, str] = field(default_factory=dict)
    read: Mapping[str, str] = field(default_factory=dict)
    subscriptions: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "do": "create_principal",
            "name": self.name,
            "role": self.role,
            "digest": self.digest,
            "publish": dict(self.publish),
            "read": dict(self.read),
            "subscriptions": self.subscriptions,
        }


@dataclass(frozen=True, slots=True)
class RemovePrincipal:
    """Whatever it registered is withdrawn."""

    name: str

    def to_json(self) -> dict[str, Any]:
        return {"do": "remove_principal", "name": self.name}


@dataclass(frozen=True, slots=True)
class Register:
    """`filter` is a filter as JSON (`content.filter_json`)."""

    kind: Kind
    principal: str
    host: str
    schema: str
    filter: Any

    def to_json(self) -> dict[str, Any]:
        return {
            "do": "register",
            "kind": self.kind,
            "principal": self.principal,
            "host": self.host,
            "schema": self.schema,
            "filter": self.filter,
        }


@dataclass(frozen=True, slots=True)
class Withdraw:
    id: str
    principal: str

    def to_json(self) -> dict[str, Any]:
        return {"do": "withdraw", "id": self.id, "principal": self.principal}


Command = Begin | CreateSchema | AdoptPlan | CreatePrincipal | RemovePrincipal | Register | Withdraw


def command_from_json(data: Any) -> Command:
    """What `to_json` of a command gave."""
    if not isinstance(data, Mapping) or data.get("do") not in _READERS:
        raise ControlError("this is no command", field="do", value=data)
    try:
        return _READERS[data["do"]](data)
    except KeyError as error:
        raise ControlError("is missing", field=str(error.args[0]), value=data) from None


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Command]] = {
    "begin": lambda data: Begin(data["settings"], data["network"]),
    "create_schema": lambda data: CreateSchema(Schema.from_json(data["schema"]), data["bits"]),
    "adopt_plan": lambda data: AdoptPlan(
        data["schema"], index_from_json(Schema.from_json(data["layout"]), data["index"])
    ),
    "create_principal": lambda data: CreatePrincipal(
        data["name"], data["role"], data["digest"], data["publish"], data["read"], data["subscriptions"]
    ),
    "remove_principal": lambda data: RemovePrincipal(data["name"]),
    "register": lambda data: Register(data["kind"], data["principal"], data["host"], data["schema"], data["filter"]),
    "withdraw": lambda data: Withdraw(data["id"], data["principal"]),
}


_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def canonical(data: Any) -> str:
    """JSON in its one form. What JSON has no form for is refused."""
    try:
        return _JSON.encode(data)
    except (TypeError, ValueError, RecursionError) as error:
        raise ControlError(f"cannot be written as JSON: {error}", value=shown(data)) from None
