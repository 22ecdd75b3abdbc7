"""The registrations at a broker in the form that an event is looked up by: filters to match, advertisements by number.

The match state listens to the controller's registrations. So a registration is in force here before its request is
answered, and after a restart the match state is built from the same registrations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pleroma.broker.programs import ProgramOwner
from pleroma.content import Event, Filter
from pleroma.control.state.records import Registered, SchemaEntry
from pleroma.control.state.registrations import Registrations
from pleroma.matching.edge_filter import MIN_ENGINE_FILTERS, EdgeFilter
from pleroma.matching.filter_matcher import FilterMatcher
from pleroma.wire.event_encryption import seal_of
from pleroma.wire.event_tags import SchemaSeals, schema_key
from pleroma.wire.versioned_codec import PacketCodec, codec_of


@dataclass(frozen=True, slots=True, eq=False)
class BrokerSubscription:
    id: str
    owner: ProgramOwner
    filter: Filter


@dataclass(slots=True, eq=False)
class MatchedSchema:
    """The subscriptions to one schema. It stays when the last of them is withdrawn, and goes with the schema."""

    entry: SchemaEntry
    codec: PacketCodec
    seals: SchemaSeals | None = None
    """Opens and protects the packets of its events; None where events have no tags."""
    edge: EdgeFilter[BrokerSubscription] | FilterMatcher[BrokerSubscription] = field(default_factory=EdgeFilter)

    def owners(self, event: Event) -> set[ProgramOwner]:
        """The owners of the subscriptions that match an event."""
        return {subscription.owner for subscription in self.edge.wanting(event)}


@dataclass(frozen=True, slots=True, eq=False)
class BrokerAdvertisement:
    id: str
    owner: ProgramOwner
    filter: Filter
    schema: MatchedSchema
    is_open: bool
    """Whether it has every event of the schema, so that no event need be compared with the filter."""

    def has(self, event: Event) -> bool:
        return self.is_open or self.filter.matches(event)


class MatchState:
    """Only to be read; it changes with the registrations that it follows.

    With a `secret`, events have tags or are encrypted; the keys follow from the secret (`pleroma.wire.event_tags`).
    """

    def __init__(self, secret: bytes | None = None) -> None:
        self._secret = secret
        self.schemas: dict[int, MatchedSchema] = {}
        """By the number of the schema."""
        self.advertisements: dict[int, BrokerAdvertisement] = {}
        """By the publisher's number, which packets carry."""
        self._by_name: dict[str, MatchedSchema] = {}
        self._subscriptions: dict[str, BrokerSubscription] = {}

    def __len__(self) -> int:
        return len(self._subscriptions) + len(self.advertisements)

    def find_schema(self, name: str) -> MatchedSchema | None:
        """The schema of this name, if anything was ever registered in it."""
        return self._by_name.get(name)

    def follow(self, registrations: Registrations) -> None:
        """Take in the registrations in force, and hear of all changes from now on."""
        self.load(registrations.values())
        registrations.subscribe(self)

    def forget(self, schema: str) -> None:
        """The schema was removed, since nothing is registered in it any more."""
        known = self._by_name.pop(schema, None)
        if known is not None:
            del self.schemas[known.entry.number]

    def extend(self, entry: SchemaEntry, registered: Iterable[Registered]) -> None:
        """The schema has a later version now; these are its registrations."""
        known = self.schemas.get(entry.number)
        if known is not None:
            known.codec, known.edge = codec_of(entry.versions, entry.number), EdgeFilter()
            self.load(registered)

    def load(self, registered: Iterable[Registered]) -> None:
        """Take in all registrations of schemas at once, as after a restart; before anything else of these schemas."""
        by_schema: dict[int, list[BrokerSubscription]] = {}
        for each in registered:
            if each.kind == "advertisement":
                self._advertise(each)
            else:
                by_schema.setdefault(each.entry.number, []).append(self._subscribe(each))
        for number, subscriptions in by_schema.items():
            schema = self.schemas[number]
            if len(subscriptions) >= MIN_ENGINE_FILTERS:  # added one by one, they would be sorted again and again
                schema.edge = FilterMatcher(schema.entry.schema, ((each, each.filter) for each in subscriptions))
            else:
                for subscription in subscriptions:
                    schema.edge.add(subscription, subscription.filter)

    def on_registered(self, registered: Registered) -> None:
        if registered.kind == "advertisement":
            self._advertise(registered)
        else:
            subscription = self._subscribe(registered)
            self.schemas[registered.entry.number].edge.add(subscription, subscription.filter)

    def on_withdrawn(self, registered: Registered) -> None:
        if registered.kind == "advertisement":
            del self.advertisements[registered.publisher]
        else:
            subscription = self._subscriptions.pop(registered.id)
            schema = self.schemas.get(registered.entry.number)
            if schema is not None:  # listeners may hear of a withdrawal after its schema was removed
                schema.edge.remove(subscription)

    def _advertise(self, registered: Registered) -> None:
        schema, advertised = self._schema(registered.entry), registered.filter
        is_open = advertised == Filter.everything(advertised.schema)
        advertisement = BrokerAdvertisement(registered.id, _owner(registered), advertised, schema, is_open)
        self.advertisements[registered.publisher] = advertisement

    def _subscribe(self, registered: Registered) -> BrokerSubscription:
        self._schema(registered.entry)
        subscription = BrokerSubscription(registered.id, _owner(registered), registered.filter)
        self._subscriptions[registered.id] = subscription
        return subscription

    def _schema(self, entry: SchemaEntry) -> MatchedSchema:
        schema = self.schemas.get(entry.number)
        if schema is None:
            seals = None
            if self._secret is not None:
                seals = SchemaSeals(schema_key(self._secret, entry.number, entry.name), seal_of(entry.schema))
            schema = self.schemas[entry.number] = MatchedSchema(entry, codec_of(entry.versions, entry.number), seals)
            self._by_name[entry.name] = schema
        return schema


def _owner(registered: Registered) -> ProgramOwner:
    return ProgramOwner(registered.principal, registered.lease)
