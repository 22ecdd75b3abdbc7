"""Traffic that shifts midway, in a lake, and its windows counted slowly: one event and one subscription at a time."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from pleroma.content import Attribute, Event, Filter, Schema, Text
from pleroma.content.batch import EventBatch
from pleroma.errors import PlanMoved
from pleroma.index import GridIndex, Index, IndexPlan
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.landed import RegistrationRow
from pleroma.replanning.plan_in_force import PlanInForce
from pleroma.replanning.windows import HISTOGRAM_BINS, MetricKey
from pleroma.routing import SwitchId, build

SCHEMA = Schema.from_json(
    {
        "name": "stock",
        "attribute": [
            {"name": "price", "kind": "real", "min": 0, "max": 100},
            {"name": "volume", "kind": "integer", "min": 0, "max": 999},
            {"name": "venue", "kind": "category", "values": ["a", "b", "c"], "optional": True},
        ],
    }
)
BEGIN = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
AN_HOUR_BEFORE = BEGIN - timedelta(hours=1)
WINDOW = timedelta(seconds=10)
LINE = replace(build("line:4"), limits={SwitchId("R2"): 30})
MEMBERS = 8
BITS = 6
BY_PRICE = GridIndex(SCHEMA, (0,) * BITS)
BY_VOLUME = GridIndex(SCHEMA, (1,) * BITS)


def subscriptions(count: int = 24) -> list[RegistrationRow]:
    """Ranges of prices all over the domain, and of volumes that all contain 500."""
    made = []
    for i in range(count):
        price, volume = (i * 37) % 90, 401 + (i * 41) % 100
        text = f"price >= {price} and price < {price + 10} and volume >= {volume} and volume < {volume + 100}"
        made.append(RegistrationRow(f"s{i}", "ann", f"h{i % 3}", Filter.parse(SCHEMA, text)))
    return made


def traffic(count: int, shifted: bool, seed: int = 0) -> EventBatch:
    """Before the shift prices vary and volumes do not; afterwards it is the other way round."""
    draw = np.random.default_rng([seed, shifted])
    price = np.full(count, 50.0) if shifted else draw.random(count) * 100
    volume = draw.integers(300, 700, count) if shifted else np.full(count, 500)
    venue = [[None, "a", "b", "c"][i] for i in draw.integers(0, 4, count)]
    return EventBatch.from_columns(SCHEMA, {"price": price, "volume": volume, "venue": venue})


def moments(start: datetime, length: timedelta, count: int) -> list[datetime]:
    """Evenly through a stretch of time."""
    return [start + length * i / count for i in range(count)]


def new_lake(
    folder: Path,
    index: Index = BY_PRICE,
    rows: Sequence[RegistrationRow] | None = None,
    since: datetime = AN_HOUR_BEFORE,
) -> Lake:
    lake = Lake.at(str(folder))
    lake.land_schema(SCHEMA, since)
    lake.land_plan(IndexPlan(1, index, MEMBERS), since)
    lake.land_subscriptions(SCHEMA.name, since, subscriptions() if rows is None else rows)
    return lake


def placed_lake(folder: Path) -> Lake:
    """A lake that knows its network: nobody subscribes at the last host of a line, which publishes."""
    rows = [row._replace(host=LINE.hosts[n % 3].name) for n, row in enumerate(subscriptions())]
    lake = new_lake(folder, rows=rows)
    lake.land_topology(LINE, {"R3": 50}, AN_HOUR_BEFORE)
    everything = "a1", "dee", LINE.hosts[-1].name, Filter.everything(SCHEMA)
    lake.registrations("advertisements").land("stock", AN_HOUR_BEFORE, [everything])
    return lake


def land(
    lake: Lake,
    number: int,
    *,
    count: int = 300,
    shifted: bool = False,
    epoch: int = 1,
    window: timedelta = WINDOW,
    parts: int = 2,
) -> None:
    """The events of one window, in so many files."""
    events, start = traffic(count, shifted, number), BEGIN + number * window
    at = moments(start, window, count)
    for part in range(parts):
        lake.land_events(events[part::parts], at[part::parts], epoch, 1.0)


def slow_counts(
    events: Sequence[Event], plan: Index, rows: Sequence[RegistrationRow], epoch: int = 1, judged: bool = True
) -> dict[MetricKey, int]:
    """The counts of a window, by the definitions."""
    counts: dict[MetricKey, int] = defaultdict(int)
    counts[MetricKey("events")] = len(events)
    counts[MetricKey("epoch", epoch)] = len(events)
    if judged:
        for host in {row.host for row in rows}:
            wishes = [row.filter for row in rows if row.host == host]
            covers = [plan.cover(each, max_members=MEMBERS) for each in wishes]
            for event in events:
                cells = plan.dzs(event)
                counts[MetricKey("deliveries")] += any(cover.covers(dz) for cover in covers for dz in cells)
                counts[MetricKey("wanted")] += any(each.matches(event) for each in wishes)
    else:
        counts[MetricKey("unjudged")] = len(events)
    for event in events:
        for d, (attribute, value) in enumerate(zip(SCHEMA.attributes, event.value_keys, strict=True)):
            counts[MetricKey("histogram", d, slow_bin(attribute, value))] += 1
            for box in (box for row in rows if judged for box in row.filter.boxes):
                counts[MetricKey("matched", d)] += value in box.ranges[d]
                counts[MetricKey("pairs")] += d == 0
    return {key: n for key, n in counts.items() if n}


def slow_bin(attribute: Attribute, key: Any) -> int:
    if key == attribute.absent:
        return HISTOGRAM_BINS
    low, high = attribute.extent
    share = (attribute.coordinate(key) - low) / (high - low)
    assert not isinstance(attribute, Text)
    return min(int(share * HISTOGRAM_BINS), HISTOGRAM_BINS - 1)


class Recorded:
    """A controller that notes down what it is handed. With a file, also for processes that die."""

    def __init__(
        self, index: Index = BY_PRICE, epoch: int = 1, file: Path | None = None, lake: Lake | None = None
    ) -> None:
        self.file, self.lake = file, lake
        self.taken: list[tuple[int, Index]] = []
        self.predicted: dict[str, float] = {}
        self.index, self.epoch, self.members = index, epoch, MEMBERS
        if file is not None and file.exists():
            self.epoch = 1 + len(file.read_text().splitlines())

    def again(self) -> "Recorded":
        """As it stands, without what was put around it."""
        made = Recorded(self.index, self.epoch)
        made.taken, made.members = self.taken, self.members
        return made

    def current(self) -> PlanInForce:
        return PlanInForce(self.epoch, self.index, self.members)

    def put(self, index: Index, members: int | None, epoch: int, predicted: Mapping[str, float] | None = None) -> int:
        if epoch != self.epoch:
            raise PlanMoved("another plan is in force", field="epoch", value=epoch)
        self.epoch, self.index, self.members = epoch + 1, index, members or self.members
        self.taken.append((epoch, index))
        self.predicted = dict(predicted or {})
        if self.file is not None:
            with self.file.open("a") as log:
                log.write(json.dumps(index.to_json()) + "\n")
        if self.lake is not None:
            self.lake.land_plan(IndexPlan(self.epoch, index, self.members), datetime.now(UTC))
        return self.epoch
