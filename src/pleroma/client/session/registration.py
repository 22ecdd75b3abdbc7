"""An advertisement or subscription as the client remembers it, to be able to register it again.

Each registration has a key, by which the controller recognises a repeated request and answers it as before. A
registration that the controller lost is made under a new key, since the old one would bring back the old answer.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pleroma.client.session.traffic_share import TrafficShare
from pleroma.content import Filter, Schema
from pleroma.content.filter_json import to_json
from pleroma.content.schema_versions import carried, obstacles
from pleroma.errors import ClientError, ContentError, shown
from pleroma.wire.event_encryption import seal_of
from pleroma.wire.event_tags import EVENT_KEY_BYTES, PacketSeal, SchemaSeals

RegistrationKind = Literal["advertisements", "subscriptions"]


def read_filter(schema: Schema, filter: str | Filter) -> Filter:
    """A filter from its text; or the filter itself, if it is one of this schema or of an earlier version."""
    if isinstance(filter, str):
        return Filter.parse(schema, filter)
    if not isinstance(filter, Filter):
        raise ContentError(f"is a text or a Filter, not {shown(filter)}", field="filter", value=filter)
    if obstacles(filter.schema, schema):
        reason = f"the filter is of another schema than {schema.name!r}"
        raise ClientError(reason, field="filter", value=filter.schema.name)
    return carried(filter, schema)


@dataclass(slots=True, eq=False)
class ClientRegistration:
    kind: RegistrationKind
    schema: str
    filter: Filter
    host: str | None = None
    """The host that it is registered at; None if it is not registered."""
    id: str | None = None
    share: TrafficShare | None = None
    """What the controller told of it when it was registered last; None where nothing was sampled."""
    key: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def description(self) -> str:
        """What it is about, in short."""
        return f"{self.schema!r}, {shown(str(self.filter))}, id={self.id!r}"

    def request(self, host: str) -> dict[str, Any]:
        """The body of a request to register. The controller reads boxes faster than text."""
        return {"schema": self.schema, "host": host, "key": self.key, "boxes": to_json(self.filter)}

    def registered(self, answer: Mapping[str, Any], host: str) -> None:
        """The controller has registered it at this host."""
        identity = answer.get("id")
        if not isinstance(identity, str):
            raise ClientError("the controller's answer has no id", field="id", value=identity)
        self.id, self.host, self.share = identity, host, TrafficShare.read(answer)

    def withdrawn(self) -> None:
        """The controller has withdrawn it, as this client asked."""
        self.id = self.host = None

    def lost(self) -> None:
        """The controller does not have it any more."""
        self.id = self.host = None
        self.key = uuid.uuid4().hex


def publisher_seal(schema: Schema, answer: Mapping[str, Any]) -> PacketSeal | None:
    """What protects the events of an advertisement, by the controller's answer; None where nothing does."""
    key = _event_key(answer)
    return None if key is None else seal_of(schema)(key)


def schema_seals(schema: Schema, answer: Mapping[str, Any]) -> SchemaSeals | None:
    """What opens the events of a subscription, by the controller's answer; None where events are not protected."""
    key = _event_key(answer)
    return None if key is None else SchemaSeals(key, seal_of(schema))


def _event_key(answer: Mapping[str, Any]) -> bytes | None:
    given = answer.get("event_key")
    if given is None:
        return None
    try:
        key = bytes.fromhex(given)
    except (TypeError, ValueError):
        key = b""
    if len(key) != EVENT_KEY_BYTES:  # the value stays out of the error: it may be a key
        raise ClientError("the controller's answer has a key that cannot be read", field="event_key")
    return key
