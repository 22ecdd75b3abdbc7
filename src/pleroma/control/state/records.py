"""The records of the state: schemas with their plans, principals, and registrations.

There may be a hundred thousand registrations, so one is small: its filter is kept as the text of its JSON and parsed
when somebody asks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pleroma.content import Filter, Schema
from pleroma.content.filter_json import from_json
from pleroma.control.state.command import RegistrationKind, Role
from pleroma.control.state.tree_choice import TreeChoice
from pleroma.index import Dz, DzSet, Index, IndexPlan
from pleroma.routing import HostId


@dataclass(slots=True)
class SchemaEntry:
    """A schema, its share of the addresses, and its plans from the first to the one in force."""

    schema: Schema
    number: int
    prefix: Dz
    plans: list[IndexPlan]
    trees: TreeChoice = "single"
    """How the trees were dealt out that its events travel on."""

    @property
    def name(self) -> str:
        return self.schema.name

    @property
    def plan(self) -> IndexPlan:
        return self.plans[-1]

    @property
    def epoch(self) -> int:
        return self.plan.epoch

    @property
    def index(self) -> Index:
        return self.plan.index

    @property
    def members(self) -> int:
        return self.plan.members


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who may ask for something, known by the digest of a token: its verifier (`wire.token_proof`)."""

    name: str
    role: Role
    digest: str
    publish: Mapping[str, str]
    read: Mapping[str, str]
    subscriptions: int | None


@dataclass(frozen=True, slots=True)
class Registered:
    """An advertisement or a subscription in force.

    `boxes` is its filter as JSON text. `publisher` is the number that packets of an advertisement carry; a subscription
    has 0. With a `lease`, the registration stands for as long as the lease is renewed.
    """

    id: str
    kind: RegistrationKind
    principal: str
    host: HostId
    entry: SchemaEntry
    boxes: str
    region: DzSet
    publisher: int
    lease: str | None = None

    @property
    def schema(self) -> str:
        return self.entry.schema.name

    @property
    def filter(self) -> Filter:
        return from_json(self.entry.schema, json.loads(self.boxes))
