"""What an audit found: the rows of a tally as estimates for all the traffic, with names, the most wasteful first.

Counters of sampled events are divided by the sampling rate. A delivery is one event to one subscription, as if each
subscription had a port of its own; at hosts, where a packet comes once however many want it, packets are counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pleroma.pipeline.audit.counterfactual import Counterfactual
from pleroma.pipeline.audit.tally import TALLY_COUNTERS, InForce
from pleroma.pipeline.lake.landed import RegistrationRow
from pleroma.pipeline.lake.period import Period
from pleroma.replanning.reported_counts import ReportedCounts

TallyRow = tuple[Any, ...]
"""A row with the columns of `TALLY_COLUMNS`."""


@dataclass(frozen=True, slots=True)
class DeliverySum:
    """How much was delivered, and how much of that was wasted; estimates if events are sampled.

    At subscriptions, an event that comes because of two of them is two deliveries; at hosts, a packet is one.
    """

    delivered: float = 0.0
    wasted: float = 0.0

    @property
    def waste(self) -> float:
        return self.wasted / self.delivered if self.delivered else 0.0

    @property
    def wanted(self) -> float:
        return self.delivered - self.wasted

    def to_json(self, waste_at: Literal["hosts", "subscriptions"] = "subscriptions") -> dict[str, Any]:
        return {
            "delivered": round(self.delivered),
            "wasted": round(self.wasted),
            f"waste_at_{waste_at}": self.waste,
        }

    def __add__(self, other: DeliverySum) -> DeliverySum:
        return DeliverySum(self.delivered + other.delivered, self.wasted + other.wasted)


@dataclass(frozen=True, slots=True)
class SubscriptionFinding:
    id: str
    principal: str
    host: str
    filter: str
    deliveries: DeliverySum
    reported: ReportedCounts | None

    def to_json(self) -> dict[str, Any]:
        names = {"id": self.id, "principal": self.principal, "host": self.host, "filter": self.filter}
        return (
            names | self.deliveries.to_json() | {"reported": None if self.reported is None else asdict(self.reported)}
        )


@dataclass(frozen=True, slots=True)
class Cause:
    """How many unwanted deliveries an attribute alone could have prevented (`removable`), and how many could not have
    been prevented without it (`needed`).
    """

    attribute: str
    removable: float
    needed: float

    def to_json(self) -> dict[str, Any]:
        return {"attribute": self.attribute, "removable": round(self.removable), "needed": round(self.needed)}


@dataclass(frozen=True, slots=True)
class RuleFinding:
    epoch: int
    dz: str
    deliveries: DeliverySum

    def to_json(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "dz": self.dz} | self.deliveries.to_json()


@dataclass(frozen=True, slots=True)
class HostFinding:
    """Packets that came to a host and those that nobody there wanted, and what its clients reported."""

    host: str
    deliveries: DeliverySum
    reported: ReportedCounts | None

    def to_json(self) -> dict[str, Any]:
        reported = None if self.reported is None else asdict(self.reported)
        return {"host": self.host} | self.deliveries.to_json("hosts") | {"reported": reported}


@dataclass(frozen=True, slots=True)
class Audit:
    schema: str
    period: Period
    events: int
    """Events that were landed and judged; `of` is how many they stand for."""
    of: float
    total: DeliverySum
    repeated: float
    """Wasted deliveries of events that were wanted and had come already."""
    plans: Mapping[int, DeliverySum]
    hours: Mapping[str, DeliverySum]
    subscriptions: Sequence[SubscriptionFinding]
    causes: Sequence[Cause]
    rules: Sequence[RuleFinding]
    hosts: Sequence[HostFinding]
    unjudged: Mapping[str, int]
    refused: Mapping[str, str]
    """Files that could not be read, and why."""
    counterfactual: Counterfactual | None = None

    @property
    def at_hosts(self) -> DeliverySum:
        """Packets that came to hosts, and those that nobody there wanted."""
        return sum((each.deliveries for each in self.hosts), DeliverySum())

    def to_json(self, top: int | None = None) -> dict[str, Any]:
        return {
            "schema": self.schema,
            "from": self.period.start.isoformat(),
            "to": self.period.end.isoformat(),
            "events": self.events,
            "of": round(self.of),
            **self.total.to_json(),
            "at_hosts": self.at_hosts.to_json("hosts"),
            "repeated": round(self.repeated),
            "plans": [{"epoch": epoch} | share.to_json() for epoch, share in self.plans.items()],
            "hours": [{"hour": hour} | share.to_json() for hour, share in self.hours.items()],
            "attributes": [each.to_json() for each in self.causes],
            "subscriptions": [each.to_json() for each in self.subscriptions[:top]],
            "rules": [each.to_json() for each in self.rules[:top]],
            "hosts": [each.to_json() for each in self.hosts],
            "unjudged": dict(self.unjudged),
            "refused": dict(self.refused),
            "saving": None if self.counterfactual is None else self.counterfactual.to_json(),
        }


def audit_of(
    name: str,
    period: Period,
    held: InForce,
    rows: Iterable[TallyRow],
    reported: Mapping[str, ReportedCounts],
    refused: Mapping[str, str],
) -> Audit:
    """The audit that rows of a tally make, the most wasteful first."""
    sums = _estimates(rows)
    known = {row.id: row for row in held.history.newest()}
    shares = {kind: _shares(sums, kind) for kind in ("subscription", "host", "hour")}
    everything = {each: shares["subscription"].get(each, DeliverySum()) for each in known}
    causes = [
        Cause(attribute, *(sums["attribute", 0, attribute][counter] for counter in ("removable", "needed")))
        for attribute in held.schema.names
    ]
    totals = {epoch: counted for (kind, epoch, _), counted in sums.items() if kind == "total"}
    plans = {epoch: DeliverySum(each["delivered"], each["wasted"]) for epoch, each in sorted(totals.items())}
    of_rules = ((epoch, dz, counted) for (kind, epoch, dz), counted in sums.items() if kind == "rule")
    rules = [RuleFinding(epoch, dz, DeliverySum(each["delivered"], each["wasted"])) for epoch, dz, each in of_rules]
    unjudged = {reason: round(counted["landed"]) for (kind, _, reason), counted in sums.items() if kind == "unjudged"}
    return Audit(
        schema=name,
        period=period,
        events=round(sum(each["landed"] for each in totals.values())),
        of=sum(each["events"] for each in totals.values()),
        total=DeliverySum(*(sum(each[counter] for each in totals.values()) for counter in ("delivered", "wasted"))),
        repeated=sum(each["repeated"] for each in totals.values()),
        plans=plans,
        hours=dict(sorted(shares["hour"].items())),
        subscriptions=sorted(
            (_subscriber(known[each], share, reported.get(each)) for each, share in everything.items()),
            key=lambda each: (-each.deliveries.wasted, each.id),
        ),
        causes=sorted(causes, key=lambda each: -each.removable),
        rules=sorted(rules, key=lambda each: (-each.deliveries.wasted, each.epoch, each.dz)),
        hosts=_hosts(known, shares["host"], reported),
        unjudged=unjudged,
        refused=dict(refused),
    )


def _estimates(rows: Iterable[TallyRow]) -> dict[tuple[str, int, str], dict[str, float]]:
    """By kind, epoch and name, with the epoch 0 where it does not matter: what all the traffic did.

    `landed` is how many events there are, `events` how many they stand for.
    """
    sums: dict[tuple[str, int, str], dict[str, float]] = defaultdict(
        lambda: dict.fromkeys((*TALLY_COUNTERS, "landed"), 0.0)
    )
    for kind, epoch, rate, name, *counted in sorted(rows):
        into = sums[kind, epoch if kind in ("total", "rule") else 0, name]
        for counter, count in zip(TALLY_COUNTERS, counted, strict=True):
            into[counter] += count / rate
        into["landed"] += counted[0]
    return sums


def _shares(sums: Mapping[tuple[str, int, str], Mapping[str, float]], kind: str) -> dict[str, DeliverySum]:
    return {name: DeliverySum(each["delivered"], each["wasted"]) for (of, _, name), each in sums.items() if of == kind}


def _subscriber(row: RegistrationRow, share: DeliverySum, reported: ReportedCounts | None) -> SubscriptionFinding:
    return SubscriptionFinding(row.id, row.principal, row.host, str(row.filter), share, reported)


def _hosts(
    known: Mapping[str, RegistrationRow], shares: Mapping[str, DeliverySum], reported: Mapping[str, ReportedCounts]
) -> list[HostFinding]:
    said: dict[str, ReportedCounts] = {}
    for each, counted in reported.items():
        if each in known:
            host = known[each].host
            said[host] = said.get(host, ReportedCounts()) + counted
    return [
        HostFinding(host, shares.get(host, DeliverySum()), said.get(host))
        for host in sorted({r.host for r in known.values()})
    ]
