"""What a client has asked the controller for, and can ask for again.

A key makes a request safe to repeat. It is kept until the controller has answered; a registration that was lost is
made under a new key, for the old one would only bring back the old answer.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pleroma.content import Filter, Schema
from pleroma.content.filter_json import to_json
from pleroma.errors import ClientError

RegistrationKind = Literal["advertisements", "subscriptions"]


def read_filter(schema: Schema, filter: str | Filter) -> Filter:
    """A filter of the schema, from text or as it is."""
    if isinstance(filter, str):
        return Filter.parse(schema, filter)
    if filter.schema != schema:
        reason = f"the filter is of another schema than {schema.name!r}"
        raise ClientError(reason, field="filter", value=filter.schema.name)
    return filter


@dataclass(slots=True, eq=False)
class ClientRegistration:
    kind: RegistrationKind
    schema: str
    filter: Filter
    host: str | None = None
    """Where it stands; None if it does not."""
    id: str | None = None
    key: str = field(default_factory=lambda: uuid.uuid4().hex)

    def request(self, host: str) -> dict[str, Any]:
        """The body that asks for it. Boxes cost the controller less than text would."""
        return {"schema": self.schema, "host": host, "key": self.key, "boxes": to_json(self.filter)}

    def stands(self, answer: Mapping[str, Any], host: str) -> None:
        """The controller has agreed."""
        identity = answer.get("id")
        if not isinstance(identity, str):
            raise ClientError("the controller's answer has no id", field="id", value=identity)
        self.id, self.host = identity, host

    def lost(self) -> None:
        """The controller does not know it (any more)."""
        self.id = self.host = None
        self.key = uuid.uuid4().hex
