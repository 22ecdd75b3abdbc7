"""What controller and publishers share: an index, the schema it reads, its epoch, and the limit of dz per registration.

A plan travels as JSON and carries a checksum over everything else in it, so that a publisher never encodes with a plan
that was cut short or changed on the way.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from pleroma.content import Event, Filter, Schema
from pleroma.errors import PlanError
from pleroma.index.dz import Dz
from pleroma.index.dzset import DzSet
from pleroma.index.grid_index import GridIndex
from pleroma.index.selective_index import SelectiveIndex
from pleroma.index.tree_index import TreeIndex

if TYPE_CHECKING:
    from pleroma.arrays.types import Floats
    from pleroma.index.codes import Codes

PLAN_FORMAT = 1
DEFAULT_MEMBERS = 8
"""Dz per registration. For a grid, four times as many hardly waste less (a point or two) and need several times the
rules. It is also the limit of plans that were written without one.
"""
MAX_MEMBERS = 4096
"""Dz per registration that a plan can allow: in practice as many as a filter needs."""


class Index(Protocol):
    """Content to bits."""

    @property
    def schema(self) -> Schema: ...

    @property
    def bits(self) -> int: ...

    def dzs(self, event: Event) -> tuple[Dz, ...]:
        """The cells under which an event is sent: one, or one in each region that it lies in, or none."""

    def encode(self, points: Floats) -> Codes: ...

    def cover(self, filter: Filter, *, max_length: int | None = None, max_members: int | None = None) -> DzSet: ...

    def extent(self, dz: Dz) -> dict[int, tuple[float, float]]:
        """The coordinates of a cell along every attribute."""

    def to_json(self) -> dict[str, Any]: ...


_KINDS: Mapping[str, Callable[[Schema, Mapping[str, Any]], Index]] = {
    "grid": GridIndex.from_json,
    "selective": SelectiveIndex.from_json,
    "tree": TreeIndex.from_json,
}


@dataclass(frozen=True)
class IndexPlan:
    epoch: int
    index: Index
    members: int = DEFAULT_MEMBERS
    """How many dz a registration is enclosed with, at most."""

    def __post_init__(self) -> None:
        check_members(self.members)
        if isinstance(self.epoch, bool) or not isinstance(self.epoch, int) or self.epoch < 0:
            raise PlanError(f"{self.epoch!r} is not an epoch", field="epoch", value=self.epoch)

    @property
    def schema(self) -> Schema:
        return self.index.schema

    @property
    def checksum(self) -> str:
        return _checksum(self._body())

    @cached_property
    def index_bytes(self) -> int:
        """The size of the index as JSON."""
        return len(_canonical(self.index.to_json()))

    def _body(self) -> dict[str, Any]:
        return {
            "format": PLAN_FORMAT,
            "epoch": self.epoch,
            "schema": self.schema.to_json(),
            "index": self.index.to_json(),
            "members": self.members,
        }

    def dumps(self, beside: Mapping[str, Any] | None = None) -> str:
        """The plan as JSON. What stands `beside` it is under the checksum too, and is passed over by `loads`."""
        body = dict(beside or {}) | self._body()
        return _canonical(body | {"checksum": _checksum(body)})

    @classmethod
    def loads(cls, text: str) -> IndexPlan:
        try:
            data = json.loads(text)
        except ValueError as error:
            raise PlanError(f"a plan is JSON: {error}") from None
        if not isinstance(data, dict) or data.get("format") != PLAN_FORMAT:
            raise PlanError(f"a plan is an object with format {PLAN_FORMAT}", field="format")
        body = {name: value for name, value in data.items() if name != "checksum"}
        if data.get("checksum") != _checksum(body):
            raise PlanError("the checksum does not fit the contents", field="checksum", value=data.get("checksum"))
        index = index_from_json(Schema.from_json(body.get("schema")), body.get("index"))
        return cls(body.get("epoch", -1), index, body.get("members", DEFAULT_MEMBERS))


def check_members(members: Any) -> None:
    """Refuse what is no limit of dz per registration."""
    if isinstance(members, bool) or not isinstance(members, int) or not 1 <= members <= MAX_MEMBERS:
        raise PlanError(f"is a number from 1 to {MAX_MEMBERS}, not {members!r}", field="members", value=members)


def index_from_json(schema: Schema, data: Any) -> Index:
    """What `to_json` of an index gave."""
    if not isinstance(data, Mapping) or data.get("kind") not in _KINDS:
        raise PlanError(f"the index is one of {', '.join(_KINDS)}", field="index")
    return _KINDS[data["kind"]](schema, data)


def _canonical(data: Any) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _checksum(body: Any) -> str:
    return hashlib.sha256(_canonical(body).encode()).hexdigest()
