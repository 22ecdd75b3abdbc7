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

KEPT_PLANS = 16
"""Plans of a schema that are kept, the one in force among them."""
MIN_KEPT_PLANS = 4
"""So many are kept however large they are: a change has two, and clients may be one behind."""
MAX_KEPT_INDEX_BYTES = 2**20
"""Of the indexes of all plans of a schema that are kept, as JSON. In memory they take about twenty times as much."""


@dataclass(slots=True)
class SchemaEntry:
    """A schema, its share of the addresses, and its last plans up to the one in force.

    Older plans are forgotten, by their number and size alone: so the same commands leave the same plans.
    """

    schema: Schema
    number: int
    prefix: Dz
    plans: list[IndexPlan]
    trees: TreeChoice = "single"
    """How the trees were dealt out that its events travel on."""

    def __post_init__(self) -> None:
        self._forget_old_plans()

    def move_to(self, plan: IndexPlan) -> None:
        """Put another plan into force."""
        self.plans.append(plan)
        self._forget_old_plans()

    def _forget_old_plans(self) -> None:
        size, kept = 0, 0
        for plan in reversed(self.plans):
            size += plan.index_bytes
            if kept == KEPT_PLANS or (kept >= MIN_KEPT_PLANS and size > MAX_KEPT_INDEX_BYTES):
                break
            kept += 1
        del self.plans[:-kept]

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
