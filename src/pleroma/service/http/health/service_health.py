"""Whether the service can do what it is for: ok, degraded or failing, with a reason in one line for each fault.

A fault is `failing` if requests cannot be taken or no event can be led anywhere new; whatever else is not as it should
be is `degraded`. Finding out looks at no registration, so that probes may ask as often as they like.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, Self, get_args

from prometheus_client.core import Metric

from pleroma.control import Controller, SwitchDelay
from pleroma.routing import SwitchId
from pleroma.service.collecting.collection import Collection
from pleroma.service.http.data_plane import DataPlane
from pleroma.service.http.health.network_condition import named
from pleroma.service.http.health.network_watch import NetworkWatch
from pleroma.service.metric_families import gauge

UNCONFIRMED_TOO_LONG_SECONDS = 5.0
"""A switch that has not confirmed a change for so long is a reason to worry."""

HealthStatus = Literal["ok", "degraded", "failing"]
HealthPart = Literal[
    "service", "log", "lead", "snapshots", "switches", "links", "hosts", "rules", "tables", "above", "lake"
]


class HealthReason(NamedTuple):
    """Why a part of the service is not as it should be, in one line."""

    part: HealthPart
    status: HealthStatus
    reason: str


class HealthReport(NamedTuple):
    status: HealthStatus
    reasons: tuple[HealthReason, ...]

    @classmethod
    def of(cls, reasons: Iterable[HealthReason]) -> Self:
        """The worst of the reasons decides."""
        known = tuple(reasons)
        found: list[HealthStatus] = ["ok", *(each.status for each in known)]
        return cls(max(found, key=get_args(HealthStatus).index), known)

    @property
    def line(self) -> str:
        """All reasons for the status that it has."""
        return "; ".join(each.reason for each in self.reasons if each.status == self.status)


class ServiceHealth:
    """`closing` is set when the service is about to stop."""

    def __init__(
        self,
        controller: Controller,
        plane: DataPlane,
        watch: NetworkWatch,
        collection: Collection | None,
        closing: asyncio.Event,
    ) -> None:
        self._controller = controller
        self._plane = plane
        self._watch = watch
        self._collection = collection
        self._closing = closing

    def report(self) -> HealthReport:
        return HealthReport.of(self._reasons())

    def _reasons(self) -> Iterator[HealthReason]:
        controller = self._controller
        if self._closing.is_set():
            yield HealthReason("service", "failing", "the service is about to stop")
        if controller.log_failure is not None:
            yield HealthReason("log", "failing", controller.log_failure.reason)
        if controller.snapshot_failure is not None:
            yield HealthReason("snapshots", "degraded", controller.snapshot_failure.reason)
        yield from self._of_network()
        behind = controller.network_failure or _silence(controller.delays)
        if behind is not None:
            yield HealthReason("rules", "degraded", str(behind))
        if (apart := self._plane.failure_above()) is not None:
            yield HealthReason("above", "degraded", apart)
        if self._collection is not None and self._collection.failure is not None:
            yield HealthReason("lake", "degraded", self._collection.failure)

    def _of_network(self) -> Iterator[HealthReason]:
        wrong, known = self._watch.look(), self._plane.topology()
        if len(wrong.gone) == len(known.switches):
            yield HealthReason("switches", "failing", "no switch is connected")
        elif wrong.gone:
            yield HealthReason("switches", "degraded", f"gone: {named(wrong.gone)}")
        if wrong.cut:
            yield HealthReason("links", "degraded", f"cut: {named(wrong.cut)}")
        if wrong.unreachable:
            yield HealthReason("hosts", "degraded", f"not reached: {named(wrong.unreachable)}")
        if wrong.full:
            reason = f"full: {named(wrong.full)}; with coarser rules, hosts get events that nobody there wants"
            yield HealthReason("tables", "degraded", reason)

    def metrics(self) -> Iterator[Metric]:
        status, reasons = self.report()
        states = [(each, float(each == status)) for each in get_args(HealthStatus)]
        yield gauge("pleroma_health", "1 for the status that the service has", states, "status")
        faults = Counter(each.part for each in reasons)
        counts = [(each, float(faults[each])) for each in get_args(HealthPart)]
        yield gauge("pleroma_health_faults", "Reasons for which the status is not ok, by part", counts, "part")


def _silence(delays: Mapping[SwitchId, SwitchDelay]) -> str | None:
    """Which switch has been silent for longest, if for long."""
    if not delays:
        return None
    switch, delay = max(delays.items(), key=lambda each: each[1].seconds)
    if delay.seconds < UNCONFIRMED_TOO_LONG_SECONDS:
        return None
    return f"{switch} has not confirmed {delay.operations} changes, the oldest for {delay.seconds:.0f} s"
