"""A lake with a day of quotes in it, for audits: two plans, subscriptions that change once, one sampled stretch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from pleroma.content.batch import EventBatch
from pleroma.index import GridIndex, IndexPlan
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.landed import RegistrationRow, ReportedCounters, ReportRow
from pleroma.workloads import StockModel, Workload, generate_stock

DAY = datetime(2026, 11, 15, tzinfo=UTC)
SHIFT = DAY + timedelta(hours=10)
"""When the second plan begins, and five subscriptions more."""
EVENTS = 900
SUBSCRIPTIONS = 40
HOSTS = ("h1", "h2", "h3")


def quotes() -> Workload:
    return generate_stock(StockModel(subscriptions=SUBSCRIPTIONS, ranges=1.0, width=0.3, seed=3))


def land(url: Path, parts: int = 6) -> tuple[Lake, Workload, EventBatch]:
    """The day: at 9:00 the first events, at 10:00 another plan, from then on half of the events in the lake."""
    data = quotes()
    lake = Lake.at(str(url))
    name = data.schema.name
    lake.land_schema(data.schema, DAY)
    lake.land_plan(IndexPlan(1, GridIndex.regular(data.schema, 12)), DAY)
    lake.land_plan(IndexPlan(2, GridIndex.regular(data.schema, 16, ["ticker", "volume"])), SHIFT)
    rows = [RegistrationRow(f"s{n:02}", "p", HOSTS[n % 3], each) for n, each in enumerate(data.subscriptions)]
    lake.land_subscriptions(name, DAY, rows[:-5])
    lake.land_subscriptions(name, SHIFT, rows)
    chosen = data.events[np.random.default_rng(1).permutation(len(data.events))[:EVENTS]]
    for part, numbers in enumerate(np.array_split(np.arange(EVENTS), parts)):
        start = DAY + timedelta(hours=9 + 2 * part / parts)
        at = [start + timedelta(seconds=int(s)) for s in range(len(numbers))]
        late = start >= SHIFT
        lake.land_events(chosen[numbers], at, 2 if late else 1, 0.5 if late else 1.0)
    first = ReportRow("s00", "p", 11, wasted=3), ReportRow("s03", "p", 4, wasted=2)
    lake.land_reports([ReportedCounters(name, SHIFT, first)])
    lake.land_reports([ReportedCounters(name, SHIFT + timedelta(minutes=5), (ReportRow("s00", "p", 2, wasted=1),))])
    return lake, data, chosen


class NotedSteps:
    """What somebody who waits for an audit is told: by step, how much there is to do, and how much was done."""

    def __init__(self) -> None:
        self.told: dict[str, tuple[float | None, float]] = {}
        self._is_open = False

    @contextmanager
    def note(self, step: str, total: float | None = None) -> Iterator[Callable[[float], None]]:
        assert not self._is_open, "there is one bar at a time"
        self._is_open, self.told[step] = True, (total, 0)

        def advance(part: float) -> None:
            self.told[step] = total, self.told[step][1] + part

        yield advance
        self._is_open = False
