"""Traffic that shifts midway, in a lake, and its windows counted slowly: one event and one subscription at a time."""

import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta

import numpy as np

from pleroma.content import Filter, Schema, Text
from pleroma.content.batch import EventBatch
from pleroma.errors import PlanMoved
from pleroma.index import GridIndex, IndexPlan
from pleroma.index.waste import evaluate
from pleroma.pipeline.lake.lake import Lake, SubscriptionRow
from pleroma.pipeline.watch.plan_holder import PlanInForce
from pleroma.pipeline.watch.windows import HISTOGRAM_BINS, MetricKey

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
WINDOW = timedelta(seconds=10)
MEMBERS = 8
BITS = 6
BY_PRICE = GridIndex(SCHEMA, (0,) * BITS)
BY_VOLUME = GridIndex(SCHEMA, (1,) * BITS)


def subscriptions(count=24):
    """Ranges of prices all over the domain, and of volumes that all contain 500."""
    made = []
    for i in range(count):
        price, volume = (i * 37) % 90, 401 + (i * 41) % 100
        text = f"price >= {price} and price < {price + 10} and volume >= {volume} and volume < {volume + 100}"
        made.append(SubscriptionRow(f"s{i}", "ann", f"h{i % 3}", Filter.parse(SCHEMA, text)))
    return made


def traffic(count, shifted, seed=0):
    """Before the shift prices vary and volumes do not; afterwards it is the other way round."""
    draw = np.random.default_rng([seed, shifted])
    price = np.full(count, 50.0) if shifted else draw.random(count) * 100
    volume = draw.integers(300, 700, count) if shifted else np.full(count, 500)
    venue = [[None, "a", "b", "c"][i] for i in draw.integers(0, 4, count)]
    return EventBatch.from_columns(SCHEMA, {"price": price, "volume": volume, "venue": venue})


def moments(start, length, count):
    """Evenly through a stretch of time."""
    return [start + length * i / count for i in range(count)]


def new_lake(folder, index=BY_PRICE, rows=None, since=BEGIN - timedelta(hours=1)):
    lake = Lake.at(str(folder))
    lake.land_schema(SCHEMA)
    lake.land_plan(IndexPlan(1, index), MEMBERS, since)
    lake.land_subscriptions(SCHEMA.name, since, subscriptions() if rows is None else rows)
    return lake


def land(lake, number, *, count=300, shifted=False, epoch=1, window=WINDOW, parts=2):
    """The events of one window, in so many files."""
    events, start = traffic(count, shifted, number), BEGIN + number * window
    at = moments(start, window, count)
    for part in range(parts):
        lake.land_events(events[part::parts], at[part::parts], epoch, 1.0)


def slow_cells(events, plan, rows, epoch=1, judged=True):
    """The cells of a window, by the definitions."""
    cells = defaultdict(int)
    cells[MetricKey("events")] = len(events)
    cells[MetricKey("epoch", epoch)] = len(events)
    if judged:
        waste = evaluate(plan, [row.filter for row in rows], events, max_members=MEMBERS)
        cells[MetricKey("deliveries")], cells[MetricKey("wanted")] = waste.deliveries, waste.wanted
    else:
        cells[MetricKey("unjudged")] = len(events)
    for event in events:
        for d, (attribute, key) in enumerate(zip(SCHEMA.attributes, event.keys, strict=True)):
            cells[MetricKey("histogram", d, slow_bin(attribute, key))] += 1
            for box in (box for row in rows if judged for box in row.filter.boxes):
                cells[MetricKey("matched", d)] += key in box.ranges[d]
                cells[MetricKey("pairs")] += d == 0
    return {cell: n for cell, n in cells.items() if n}


def slow_bin(attribute, key):
    if key == attribute.absent:
        return HISTOGRAM_BINS
    low, high = attribute.extent
    share = (attribute.coordinate(key) - low) / (high - low)
    assert not isinstance(attribute, Text)
    return min(int(share * HISTOGRAM_BINS), HISTOGRAM_BINS - 1)


class Recorded:
    """A controller that notes down what it is handed. With a file, also for processes that die."""

    def __init__(self, index=BY_PRICE, epoch=1, file=None, lake=None):
        self.file, self.lake, self.taken = file, lake, []
        self.index, self.epoch = index, epoch
        if file is not None and file.exists():
            self.epoch = 1 + len(file.read_text().splitlines())

    def again(self):
        """As it stands, without what was put around it."""
        made = Recorded(self.index, self.epoch)
        made.taken = self.taken
        return made

    def current(self):
        return PlanInForce(self.epoch, self.index, MEMBERS)

    def put(self, index, epoch):
        if epoch != self.epoch:
            raise PlanMoved("another plan is in force", field="epoch", value=epoch)
        self.epoch, self.index = epoch + 1, index
        self.taken.append((epoch, index))
        if self.file is not None:
            with self.file.open("a") as log:
                log.write(json.dumps(index.to_json()) + "\n")
        if self.lake is not None:
            self.lake.land_plan(IndexPlan(self.epoch, index), MEMBERS, datetime.now(UTC))
        return self.epoch
