"""What some landed events did: counters by subscription, attribute, rule and host, under what was in force for each.

An event is judged by the plan that it was sent by and by the subscriptions of its time. The counters are whole numbers
under names, so tallies of any parts of the traffic add up to that of the whole, in whatever order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pleroma.arrays.types import Ints
from pleroma.content import Schema, Text
from pleroma.content.arrow_columns import MOMENT_TYPE, sifted
from pleroma.content.batch import EventBatch
from pleroma.errors import LakeError
from pleroma.pipeline.audit.tally_kernels import (
    DELIVERED,
    FOREVER,
    NEEDED,
    REMOVABLE,
    REPEATED,
    WASTED,
    ChargedLives,
    Charges,
    CoverMembers,
    SortedCodes,
    SubscriptionBoxes,
    bounds,
    charge,
)
from pleroma.pipeline.cover_cache import CoverCache
from pleroma.pipeline.lake.lake_tables import EventColumns, attribute_columns
from pleroma.pipeline.lake.landed import LEAST_SAMPLING_RATE, LandedPlan
from pleroma.pipeline.lake.moments import from_microseconds, microseconds
from pleroma.pipeline.lake.registration_history import RegistrationHistory, RegistrationLife

CHUNK_EVENTS = 1 << 15
"""Events judged at a time: what is known of each at each host is kept in memory."""
MAX_COVERED_HOURS = 32
"""Hours whose subscriptions are kept as arrays, each for every plan."""
HOUR_MICROSECONDS = 3_600_000_000
TALLY_KEYS = ("kind", "epoch", "rate", "name")
TALLY_COUNTERS = ("events", "delivered", "wasted", "repeated", "removable", "needed")
TALLY_COLUMNS = pa.schema(
    [
        pa.field("kind", pa.string()),
        pa.field("epoch", pa.int32()),
        pa.field("rate", pa.float64()),
        pa.field("name", pa.string()),
        *(pa.field(name, pa.int64()) for name in TALLY_COUNTERS),
    ]
)


class TallyKey(NamedTuple):
    """`kind` is total, subscription, attribute, rule, host, hour or unjudged; `rate` is that of the sampling."""

    kind: str
    epoch: int
    rate: float
    name: str


@dataclass(frozen=True, slots=True)
class InForce:
    """All plans of a schema, and the subscriptions of a period."""

    schema: Schema
    plans: tuple[LandedPlan, ...]
    history: RegistrationHistory


class _CoveredSubscriptions:
    """Subscriptions under one plan, as the arrays that `charge` reads."""

    def __init__(self, plan: LandedPlan, lives: Sequence[RegistrationLife], cache: CoverCache) -> None:
        self._index = plan.plan.index
        self.rows = [each.row for each in lives]
        members = [(s, dz) for s, cover in enumerate(cache.covers(plan, self.rows)) for dz in cover]
        self.rules = sorted({dz for _, dz in members})
        rule_number = {dz: r for r, dz in enumerate(self.rules)}
        words = max(1, -(-self._index.bits // 64))
        self._members = CoverMembers(
            *bounds([dz.start for _, dz in members], [dz.end for _, dz in members], words),
            owner=np.array([s for s, _ in members], np.int64),
            rule=np.array([rule_number[dz] for _, dz in members], np.int64),
        )
        self.hosts = sorted({row.host for row in self.rows})
        host_number = {host: h for h, host in enumerate(self.hosts)}
        self._lives = ChargedLives(
            host=np.array([host_number[row.host] for row in self.rows], np.int64),
            since=np.array([microseconds(each.since) for each in lives], np.int64),
            until=np.array([FOREVER if each.until is None else microseconds(each.until) for each in lives], np.int64),
        )
        self._first_box: Ints = np.cumsum([0, *(len(row.filter.boxes) for row in self.rows)]).astype(np.int64)
        attributes = plan.plan.schema.attributes
        self._boxes = [box for row in self.rows for box in row.filter.boxes]
        self._texts = [d for d, each in enumerate(attributes) if isinstance(each, Text)]
        ends = [[(0.0, 0.0) if d in self._texts else part for d, part in enumerate(box.ranges)] for box in self._boxes]
        self._ends = np.array(ends, np.float64).reshape(-1, len(attributes), 2)
        """The boxes by the ends of their ranges. Those of texts are ranks among the texts of some events."""

    def charges(self, events: EventBatch, at: Ints) -> Charges:
        """What the deliveries of events at these moments add to the counters."""
        dims = len(events.schema)
        ends = self._ends.copy()
        for d in self._texts if len(ends) else ():
            ends[:, d] = [events.text_column(d).span(box.ranges[d]) for box in self._boxes]
        codes = self._index.encode(events.points())
        of_row = codes.of_event(np.arange(len(events), dtype=np.int64))
        order = np.lexsort(codes.words.T[::-1])
        sizes = (len(self.rows), len(self.rules), dims, len(self.hosts))
        charges = Charges(*(np.zeros((n, 3), np.int64) for n in sizes))
        charge(
            SortedCodes(np.ascontiguousarray(codes.words[order]), np.ascontiguousarray(of_row[order])),
            events.ordinals(),
            at,
            SubscriptionBoxes(self._first_box, *(np.ascontiguousarray(ends[:, :, side]) for side in (0, 1))),
            self._members,
            self._lives,
            charges,
        )
        return charges


@dataclass(slots=True)
class AuditTally:
    """Counters under keys; `TALLY_COUNTERS` says which.

    Events are judged by the hour: subscriptions that were in force at some moment of it are covered when an event needs
    them, and a delivery counts if the subscription was in force when the event was published.
    """

    in_force: InForce
    counts: dict[TallyKey, list[int]] = field(default_factory=dict)
    _covered: dict[tuple[int, int], _CoveredSubscriptions] = field(default_factory=dict)
    _sums: dict[tuple[int, int, float], Charges] = field(default_factory=dict)
    _covers: CoverCache = field(default_factory=CoverCache)

    def add(self, events: EventBatch, at: Ints, epoch: Ints, rate: NDArray[np.float64]) -> None:
        """Events with their times in microseconds, the plans they were sent by, and the rates they were sampled at."""
        hour = at // HOUR_MICROSECONDS
        known = at >= microseconds(self.in_force.history.known_since)
        groups = np.column_stack([epoch, known, hour, rate.view(np.int64)])
        found, of_event = np.unique(groups, axis=0, return_inverse=True)
        of_event = of_event.reshape(-1)
        for number, (e, k, h, _) in enumerate(found.tolist()):
            rows = np.flatnonzero(of_event == number)
            share = float(rate[rows[0]])
            if not k and any(each.epoch == e for each in self.in_force.plans):
                self.refuse("the lake knows no subscriptions of then", len(rows), e, share)
                continue
            for first in range(0, len(rows), CHUNK_EVENTS):
                some = rows[first : first + CHUNK_EVENTS]
                self._judge(events[some], at[some], e, h, share)

    def refuse(self, reason: str, count: int, epoch: int = 0, rate: float = 1.0) -> None:
        """Events that cannot be judged, and why."""
        if count:
            self._count(TallyKey("unjudged", epoch, rate, reason), events=count)

    def _judge(self, events: EventBatch, at: Ints, epoch: int, hour: int, rate: float) -> None:
        plan = next((each for each in self.in_force.plans if each.epoch == epoch), None)
        if plan is None:
            return self.refuse(f"plan {epoch} is not in the lake", len(events), epoch, rate)
        if plan.plan.schema != self.in_force.schema:
            return self.refuse(f"plan {epoch} is of a schema that has changed since", len(events), epoch, rate)
        try:
            covered = self._covering(plan, hour)
        except LakeError as error:
            return self.refuse(str(error), len(events), epoch, rate)
        charges = covered.charges(events, at)
        sums = self._sums.setdefault((epoch, hour, rate), Charges(*map(np.zeros_like, charges)))
        for total, more in zip(sums, charges, strict=True):
            total += more
        delivered, wasted, repeated = charges.by_subscription.sum(axis=0).tolist()
        when = from_microseconds(hour * HOUR_MICROSECONDS).strftime("%Y-%m-%dT%H:00Z")
        for kind, name in (("total", ""), ("hour", when)):
            key = TallyKey(kind, epoch, rate, name)
            self._count(key, events=len(events), delivered=delivered, wasted=wasted, repeated=repeated)
        return None

    def _covering(self, plan: LandedPlan, hour: int) -> _CoveredSubscriptions:
        found = self._covered.get((plan.epoch, hour))
        if found is None:
            if len(self._covered) >= MAX_COVERED_HOURS:
                self._count_sums()
                self._covered.clear()
            start, end = (from_microseconds(each * HOUR_MICROSECONDS) for each in (hour, hour + 1))
            found = _CoveredSubscriptions(plan, self.in_force.history.during(start, end), self._covers)
            self._covered[plan.epoch, hour] = found
        return found

    def _count(self, key: TallyKey, **more: int) -> None:
        counts = self.counts.setdefault(key, [0] * len(TALLY_COUNTERS))
        for at, name in enumerate(TALLY_COUNTERS):
            counts[at] += more.get(name, 0)

    def rows(self) -> list[tuple[Any, ...]]:
        """Every key with its counters, in order; what was never delivered to is left out."""
        self._count_sums()
        return sorted((*key, *counts) for key, counts in self.counts.items())

    def _count_sums(self) -> None:
        """Count the sums of each hour under the names that its subscriptions and rules have."""
        for (epoch, hour, rate), sums in self._sums.items():
            covered = self._covered[epoch, hour]
            for kind, names, counted in (
                ("subscription", [row.id for row in covered.rows], sums.by_subscription),
                ("rule", [str(dz) for dz in covered.rules], sums.by_rule),
                ("host", covered.hosts, sums.by_host),
            ):
                for name, each in zip(names, counted.tolist(), strict=True):
                    if each[DELIVERED]:
                        more = {"delivered": each[DELIVERED], "wasted": each[WASTED], "repeated": each[REPEATED]}
                        self._count(TallyKey(kind, epoch, rate, name), **more)
            for name, each in zip(self.in_force.schema.names, sums.by_attribute.tolist(), strict=True):
                key = TallyKey("attribute", epoch, rate, name)
                self._count(key, removable=each[REMOVABLE], needed=each[NEEDED])
        self._sums.clear()


def tallied(in_force: InForce, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Landed events in, one batch of rows of `TALLY_COLUMNS` out."""
    tally = AuditTally(in_force)
    for batch in batches:
        if batch.num_rows:
            _take(tally, batch)
    rows = tally.rows()
    if rows:
        columns = [
            pa.array(column, each.type) for column, each in zip(zip(*rows, strict=True), TALLY_COLUMNS, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=TALLY_COLUMNS)


def _take(tally: AuditTally, batch: pa.RecordBatch) -> None:
    schema = tally.in_force.schema
    names = EventColumns.of(schema)
    columns = attribute_columns(schema)
    events, good = sifted(schema, {name: batch.column(column) for name, column in columns.items()})
    epoch = _numbers(batch.column(names.epoch).cast(pa.int64()), 0)
    rate = _numbers(batch.column(names.rate).cast(pa.float64()), 0.0)
    moments = batch.column(names.at).cast(MOMENT_TYPE).cast(pa.int64())
    has_moment, at = np.asarray(moments.is_valid().to_numpy(zero_copy_only=False)), _numbers(moments, 0)
    tally.refuse("outside the schema's domains", int(np.count_nonzero(~good)))
    weighs = (rate >= LEAST_SAMPLING_RATE) & (rate <= 1)
    tally.refuse("drawn at no rate that samples are drawn at", int(np.count_nonzero(good & ~weighs)))
    tally.refuse("without a moment", int(np.count_nonzero(good & weighs & ~has_moment)))
    judged = good & weighs & has_moment
    tally.add(events[judged[good]], at[judged], epoch[judged], rate[judged])


def _numbers(column: pa.Array, absent: float) -> NDArray[Any]:
    return np.asarray(column.fill_null(absent).to_numpy(zero_copy_only=False))
