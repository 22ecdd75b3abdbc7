"""What stands at a broker, in the form in which events ask for it: filters to match, and promises to keep.

It listens to the controller's registrations, so it is in force before a request is answered, and after a restart it is
read from the same registrations: there is no second truth.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from pleroma.broker.programs import ProgramOwner
from pleroma.content import Event, Filter
from pleroma.control.state.records import Registered, SchemaEntry
from pleroma.control.state.registrations import Registrations
from pleroma.matching.edge_filter import MIN_ENGINE_FILTERS, EdgeFilter
from pleroma.matching.filter_matcher import FilterMatcher
from pleroma.wire import Codec


@dataclass(frozen=True, slots=True, eq=False)
class BrokerSubscription:
    """A subscription."""

    id: str
    owner: ProgramOwner
    filter: Filter


@dataclass(slots=True, eq=False)
class MatchedSchema:
    """All about one schema. It stays when nothing stands in it any more: schemas are few."""

    entry: SchemaEntry
    codec: Codec
    edge: EdgeFilter[BrokerSubscription] | FilterMatcher[BrokerSubscription] = field(default_factory=EdgeFilter)

    def owners(self, event: Event) -> set[ProgramOwner]:
        """Whose subscriptions match."""
        return {wish.owner for wish in self.edge.wanting(event)}


@dataclass(frozen=True, slots=True, eq=False)
class BrokerAdvertisement:
    """An advertisement; events of it carry its number."""

    id: str
    owner: ProgramOwner
    filter: Filter
    space: MatchedSchema
    is_open: bool
    """Whether any event of the schema is in it: then none need be asked about."""

    def has(self, event: Event) -> bool:
        return self.is_open or self.filter.matches(event)


class RegistrationFollower(Protocol):
    """Is told of every change, as it happens."""

    def wished(self, wish: BrokerSubscription) -> None: ...

    def unwished(self, wish: BrokerSubscription) -> None: ...

    def promised(self, promise: BrokerAdvertisement) -> None: ...

    def unpromised(self, promise: BrokerAdvertisement) -> None: ...


class MatchState:
    """Read it; it changes by what the registrations tell it, and tells its follower, if it has one."""

    def __init__(self, follower: RegistrationFollower | None = None) -> None:
        self.follower = follower
        self.spaces: dict[int, MatchedSchema] = {}
        """By the number of the schema."""
        self.promises: dict[int, BrokerAdvertisement] = {}
        """By the number that packets carry."""
        self._names: dict[str, MatchedSchema] = {}
        self._wishes: dict[str, BrokerSubscription] = {}

    def __len__(self) -> int:
        return len(self._wishes) + len(self.promises)

    def named(self, schema: str) -> MatchedSchema | None:
        """All about a schema, if anything ever stood in it."""
        return self._names.get(schema)

    def follow(self, registrations: Registrations) -> None:
        """Take what stands, and be told of all that changes."""
        self.load(registrations.values())
        registrations.subscribe(self)

    def load(self, registered: Iterable[Registered]) -> None:
        """Many at once, as after a restart; before anything else."""
        found: dict[int, list[BrokerSubscription]] = {}
        for each in registered:
            if each.kind == "advertisement":
                self._promise(each)
            else:
                found.setdefault(each.entry.number, []).append(self._wish(each))
        for number, wishes in found.items():
            space = self.spaces[number]
            if len(wishes) >= MIN_ENGINE_FILTERS:  # one by one they would be put in order again and again
                space.edge = FilterMatcher(space.entry.schema, ((wish, wish.filter) for wish in wishes))
            else:
                for wish in wishes:
                    space.edge.add(wish, wish.filter)

    def on_registered(self, registered: Registered) -> None:
        if registered.kind == "advertisement":
            self._promise(registered)
        else:
            wish = self._wish(registered)
            self.spaces[registered.entry.number].edge.add(wish, wish.filter)

    def _promise(self, registered: Registered) -> None:
        space, promised = self._space(registered.entry), registered.filter
        is_open = promised == Filter.everything(promised.schema)
        promise = BrokerAdvertisement(registered.id, _owner(registered), promised, space, is_open)
        self.promises[registered.publisher] = promise
        if self.follower is not None:
            self.follower.promised(promise)

    def _wish(self, registered: Registered) -> BrokerSubscription:
        self._space(registered.entry)
        wish = self._wishes[registered.id] = BrokerSubscription(registered.id, _owner(registered), registered.filter)
        if self.follower is not None:
            self.follower.wished(wish)
        return wish

    def _space(self, entry: SchemaEntry) -> MatchedSchema:
        space = self.spaces.get(entry.number)
        if space is None:
            space = self.spaces[entry.number] = MatchedSchema(entry, Codec(entry.schema, entry.number))
            self._names[entry.name] = space
        return space

    def on_withdrawn(self, registered: Registered) -> None:
        follower = self.follower
        if registered.kind == "advertisement":
            promise = self.promises.pop(registered.publisher)
            if follower is not None:
                follower.unpromised(promise)
            return
        wish = self._wishes.pop(registered.id)
        self.spaces[registered.entry.number].edge.remove(wish)
        if follower is not None:
            follower.unwished(wish)


def _owner(registered: Registered) -> ProgramOwner:
    return ProgramOwner(registered.principal, registered.lease)
