"""The records of the state: schemas with their plans, principals and groups, and registrations.

There may be a hundred thousand registrations, so one is small: its filter is kept as the text of its JSON and parsed
when somebody asks. In the filter language it is kept too, from the first time that somebody has seen it so.
"""

from __future__ import annotations

import hmac
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from pleroma.content import Filter, Schema
from pleroma.content.filter_json import from_json
from pleroma.control.state.command import RegistrationKind
from pleroma.control.state.people_commands import Role
from pleroma.control.state.plan_origin import PlanOrigin
from pleroma.control.state.tree_choice import TreeChoice
from pleroma.index import Dz, DzSet, Index, IndexPlan
from pleroma.routing import HostId

KEPT_PLANS = 16
"""Plans of a schema that are kept, the one in force among them."""
MIN_KEPT_PLANS = 4
"""So many are kept however large they are: a change has two, and clients may be one behind."""
MAX_KEPT_INDEX_BYTES = 2**20
"""Of the indexes of all plans of a schema that are kept, as JSON. In memory they take about twenty times as much."""
MAX_UNPACKED_CHARACTERS = 4096
"""A longer text of a filter is kept packed: to a fifth, in a millisecond."""


@dataclass(slots=True)
class SchemaEntry:
    """A schema, its share of the addresses, and its last plans up to the one in force.

    Older plans are forgotten, by their number and size alone: so the same commands leave the same plans.
    """

    schema: Schema
    number: int
    """In the header of its packets. No other schema of this controller has had it, or will."""
    prefix: Dz
    plans: list[IndexPlan]
    trees: TreeChoice = "single"
    """How the trees were dealt out that its events travel on."""
    share: int = 0
    """Which share of the addresses it has. A share is free again when its schema is removed."""
    origins: dict[int, PlanOrigin] = field(default_factory=dict)
    """By epoch, where plans came from, as far as that is known."""
    earlier: tuple[Schema, ...] = ()
    """The versions of the schema before the one in force, from the first on."""

    def __post_init__(self) -> None:
        self._forget_old_plans()

    def move_to(self, plan: IndexPlan, origin: PlanOrigin | None = None) -> None:
        """Put another plan into force."""
        self.plans.append(plan)
        if origin is not None:
            self.origins[plan.epoch] = origin
        self._forget_old_plans()

    def _forget_old_plans(self) -> None:
        size, kept = 0, 0
        for plan in reversed(self.plans):
            size += plan.index_bytes
            if kept == KEPT_PLANS or (kept >= MIN_KEPT_PLANS and size > MAX_KEPT_INDEX_BYTES):
                break
            kept += 1
        del self.plans[:-kept]
        epochs = {plan.epoch for plan in self.plans}
        self.origins = {epoch: origin for epoch, origin in self.origins.items() if epoch in epochs}

    @property
    def name(self) -> str:
        return self.schema.name

    @property
    def versions(self) -> tuple[Schema, ...]:
        """All versions of the schema, from the first to the one in force."""
        return (*self.earlier, self.schema)

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


class Rights(NamedTuple):
    """By schema, the filter to stay within: in what is published, and in what is read."""

    publish: Mapping[str, str]
    read: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Group:
    """Rights that its members have besides their own."""

    name: str
    rights: Rights


@dataclass(frozen=True, slots=True)
class Token:
    """A token as the controller knows it: by its verifier in hex (`wire.token_proof`).

    It `ends` at an instant in seconds since 1970, or never. It is over when the log says that the instant has come.
    """

    digest: str
    ends: float | None = None
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who may ask for something, and shows a token for it."""

    name: str
    role: Role
    token: Token
    own: Rights
    """What it may do besides what its groups may."""
    rights: Rights
    """All that it may do."""
    subscriptions: int | None
    boxes: int | None = None
    """Boxes that the filters of all its registrations may have together; None if there is no limit."""
    groups: tuple[str, ...] = ()
    earlier: Token | None = None
    """The token before the present one, if it was left for a while."""

    @property
    def tokens(self) -> tuple[Token, ...]:
        return (self.token,) if self.earlier is None else (self.token, self.earlier)

    def token_with(self, digest: str) -> Token | None:
        """Its token that has this digest."""
        return next((each for each in self.tokens if hmac.compare_digest(each.digest, digest)), None)


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
    _text: str | bytes | None = field(default=None, compare=False, repr=False)

    @property
    def schema(self) -> str:
        return self.entry.schema.name

    @property
    def filter(self) -> Filter:
        return from_json(self.entry.schema, json.loads(self.boxes))

    @property
    def has_text(self) -> bool:
        """Whether `text` is at hand. To make the text of a large filter takes a while."""
        return self._text is not None

    @property
    def text(self) -> str:
        """The filter in the filter language."""
        kept = self._text
        if kept is None:
            kept = kept_text(str(self.filter))
            object.__setattr__(self, "_text", kept)
        return kept if isinstance(kept, str) else zlib.decompress(kept).decode()

    @property
    def box_count(self) -> int:
        return box_count(self.boxes)


def kept_text(text: str) -> str | bytes:
    """A text as it is kept: a long one is packed, since there are few who ask for it."""
    return text if len(text) <= MAX_UNPACKED_CHARACTERS else zlib.compress(text.encode(), 1)


@lru_cache(maxsize=64)
def box_count(boxes: str) -> int:
    """How many boxes a filter has that is given as the text of its JSON. Most have one, and that is seen at once."""
    if "},{" not in boxes:  # it may be part of a text, too
        return 1
    listed = json.loads(boxes)
    return len(listed) if isinstance(listed, list) else 1
