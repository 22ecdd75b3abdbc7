"""A small lake with something in each table, for those who read it by other means than ours."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.errors import DamagedFile
from pleroma.index import GridIndex, IndexPlan
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.lake_tables import TABLES, SharedTable
from pleroma.pipeline.lake.landed import BatchId, ReportedCounters, ReportRow
from pleroma.routing.shapes import testbed
from support.strategies import STOCK
from support.table_rows import append

BEGIN = datetime(2026, 11, 15, 16, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def quotes(count: int) -> EventBatch:
    """Events of which every third lacks its market."""
    tickers = ("IBM", "AAPL")
    made = [
        STOCK.event(price=float(n % 100), volume=n, ticker=tickers[n % 2], **({} if n % 3 else {"market": "nyse"}))
        for n in range(count)
    ]
    return EventBatch.from_events(STOCK, made)


def small_lake(url: str) -> Lake:
    """Events of two hours and two plans, registrations that came and went, reports, windows, decisions, a bad file."""
    lake = Lake.at(url)
    lake.land_schema(STOCK, BEGIN)
    lake.land_sampling("stock", 0.5)
    for epoch in (1, 2):
        lake.land_plan(IndexPlan(epoch, GridIndex.regular(STOCK, epoch)), BEGIN + 30 * (epoch - 1) * MINUTE)
    for number, rate in enumerate((0.5, 0.25)):
        moments = [BEGIN + (60 * number + each) * MINUTE for each in range(20)]
        lake.land_events(quotes(20), moments, 1 + number, rate, BatchId("publisher", number))
    low, high = Filter.parse(STOCK, "price < 50"), Filter.parse(STOCK, "price >= 50 or ticker = 'IBM'")
    lake.land_subscriptions("stock", BEGIN, [("s1", "ann", "h1", low), ("s2", "ben", "h2", high)], 1)
    lake.land_subscriptions("stock", BEGIN + 20 * MINUTE, [("s1", "ann", "h1", low)], 2)
    lake.land_subscriptions("stock", BEGIN + 40 * MINUTE, [("s3", "cy", "h3", high)], 3)
    promised = lake.registrations("advertisements")
    promised.land("stock", BEGIN, [("a1", "dee", "h4", high), ("a2", "dee", "h5", low)], 4)
    promised.land("stock", BEGIN + 40 * MINUTE, [("a1", "dee", "h4", high)], 5)
    for number in range(2):
        rows = ReportRow("s1", "ann", 6, 2, 1, 0), ReportRow("s2", "ben", 3, 5, 0, number)
        lake.land_reports(
            [ReportedCounters("stock", BEGIN + 60 * number * MINUTE, rows, BatchId("subscriber", number))]
        )
    lake.land_topology(testbed(), {}, BEGIN)
    lake.land_topology(testbed(), {"R1": 900}, BEGIN + 10 * MINUTE)
    day = {"schema": "stock", "day": "2026-11-15", "since": BEGIN, "until": BEGIN + MINUTE, "epoch": 1}
    window = {"events": 20, "deliveries": 10, "wanted": 8, "waste": 0.2, "drift": 0.1, "matched": [("price", 7)]}
    _append(lake, "windows", day | window | {"epochs": [(1, 20)], "histograms": [("price", [1, 2, 3])]})
    decision = {"reason": "waste", "outcome": "adopted", "new_epoch": 2, "waste_before": 0.5, "waste_after": 0.25}
    _append(lake, "decisions", day | decision)
    lake.refuse("events/stock", "hour=2026-11-15T15/part-0.parquet", DamagedFile("is empty"))
    return lake


def _append(lake: Lake, name: SharedTable, row: dict[str, Any]) -> None:
    schema = TABLES[name].schema
    columns = {each.name: pa.array([row.get(each.name)], each.type) for each in schema}
    append(lake.table(name), pa.table(columns))
