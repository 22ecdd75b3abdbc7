"""What the handlers of registrations work with: a service that has everything, or a gate that has only this."""

from __future__ import annotations

from typing import Protocol

from pleroma.control import ControlState, Done, SchemaEntry
from pleroma.control.state.command import Command
from pleroma.service.http.batch_slices import BatchSlices, BatchSubmitting
from pleroma.service.http.forgery.event_keys import EventKeys
from pleroma.service.http.limits import Buckets
from pleroma.service.http.sampled_traffic import EncodedSample
from pleroma.service.turns import Turns


class Submitting(BatchSubmitting, Protocol):
    """What carries out commands."""

    async def submit(self, command: Command, key: str | None = None, patience: float | None = None) -> Done: ...


class LeaseTimes(Protocol):
    """Is told when something is registered under a lease."""

    def extend(self, principal: str, name: str) -> None: ...

    def begin(self, principal: str, name: str) -> None: ...


class TrafficSamples(Protocol):
    async def of(self, entry: SchemaEntry) -> EncodedSample | None: ...


class RegistrationDesk(Protocol):
    @property
    def controller(self) -> Submitting: ...

    @property
    def state(self) -> ControlState: ...

    @property
    def leases(self) -> LeaseTimes: ...

    @property
    def keys(self) -> EventKeys | None: ...

    @property
    def traffic(self) -> TrafficSamples: ...

    @property
    def turns(self) -> Turns: ...

    @property
    def buckets(self) -> Buckets: ...

    @property
    def batches(self) -> BatchSlices: ...

    def schema(self, name: str) -> SchemaEntry:
        """The schema that a URL names; raises `NotFound`."""
