"""What a lake gives back: plans, registrations and reports as values."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.index import MAX_MEMBERS, IndexPlan
from pleroma.routing import SwitchId, Topology

RegistrationTable = Literal["subscriptions", "advertisements"]
"""The tables of registrations: what is wanted where, and what is published where."""
REGISTRATION_TABLES: tuple[RegistrationTable, ...] = get_args(RegistrationTable)


LEAST_SAMPLING_RATE = 1e-6
"""Below it a sample would stand for more events than anybody publishes between two of them."""


class LandedPlan(NamedTuple):
    since: datetime
    plan: IndexPlan

    @classmethod
    def of(cls, plan: IndexPlan, members: int | None, since: datetime) -> LandedPlan:
        """A plan with the limit that was landed beside it; None was "any number".

        The plans that earlier versions landed have no limit of their own, so what stands beside them counts.
        """
        return cls(since, replace(plan, members=MAX_MEMBERS if members is None else members))

    @property
    def epoch(self) -> int:
        return self.plan.epoch

    @property
    def members(self) -> int:
        return self.plan.members


class BatchId(NamedTuple):
    """Who sent a batch, and the number of the batch: a sender numbers its batches upwards.

    A table takes a batch only if its number is greater than those that it has of the sender, so a batch that is sent
    again, to whatever controller, is landed once.
    """

    sender: str
    """Begins with the principal, if it is a client."""
    number: int

    @property
    def principal(self) -> str:
        return self.sender.rpartition("/")[0]


class SampledEvents(NamedTuple):
    """Events of one schema that a publisher drew at one rate, under one plan."""

    events: EventBatch
    at: NDArray[np.datetime64]
    epoch: int
    rate: float
    batch: BatchId | None = None
    principal: str | None = None
    """Who handed them over, if that is known."""


class ReportRow(NamedTuple):
    """What a subscriber counted since its report before."""

    subscription: str
    principal: str
    delivered: int = 0
    wanted: int = 0
    wasted: int = 0
    duplicates: int = 0
    dropped: int = 0


class ReportedCounters(NamedTuple):
    """Reports of one sender about subscriptions of one schema."""

    schema: str
    at: datetime
    rows: tuple[ReportRow, ...]
    batch: BatchId | None = None


class RegistrationRow(NamedTuple):
    """A subscription or an advertisement."""

    id: str
    principal: str
    host: str
    filter: Filter


class LandedTopology(NamedTuple):
    since: datetime
    topology: Topology
    """With the limits that the switches were given."""
    rooms: dict[SwitchId, int]
    """How many rules a switch turned out to have room for, where that is known."""


class RefusedFile(NamedTuple):
    at: datetime
    table: str
    path: str
    reason: str


REPORT_COUNTERS = ReportRow._fields[2:]
