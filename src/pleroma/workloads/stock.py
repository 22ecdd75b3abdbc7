"""Real data: daily quotes of five stocks, and subscriptions drawn around them.

Bhowmik et al. 2017, V-A; Bhowmik et al. 2018, VI.

The quotes, public domain, come with bokeh_sampledata: open, high, low and close as they were traded, the close
adjusted for splits and dividends, and the number of shares traded. The papers say no more of their subscriptions than
that they follow the data, so each is drawn around a random quote.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import cache

import numpy as np

from pleroma.content import Attribute, Box, Filter, Range, Real, Schema, Text
from pleroma.content.batch import EventBatch
from pleroma.errors import SetupError
from pleroma.workloads.setting_checks import check_number, check_positive, check_whole
from pleroma.workloads.workload import Workload

TICKERS = ("AAPL", "FB", "GOOG", "IBM", "MSFT")
HIGHEST_PRICE = 1000.0
"""In dollars; the dearest share in the data cost 808.97."""
HIGHEST_VOLUME = 600_000_000.0
"""In shares a day; the busiest day in the data saw 591,052,200."""
MAX_SUBSCRIPTIONS = 10**6

STOCK_SCHEMA = Schema(
    "quotes",
    (
        Text("ticker", False),
        *(Real(name, False, 0.0, HIGHEST_PRICE) for name in ("open", "high", "low", "close")),
        Real("volume", False, 0.0, HIGHEST_VOLUME),
        Real("adj_close", False, 0.0, HIGHEST_PRICE),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StockModel:
    """How subscriptions are drawn; the events are always all quotes."""

    subscriptions: int = 1000
    ticker: float = 0.9
    """The share of subscriptions that want one ticker only."""
    ranges: float = 0.4
    """Each subscription limits one number, and each of the others with this chance."""
    width: float = 0.2
    """The mean width of a range, as a share of the number around which it lies."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole("subscriptions", self.subscriptions, 0, MAX_SUBSCRIPTIONS)
        check_number("ticker", self.ticker, 0, 1)
        check_number("ranges", self.ranges, 0, 1)
        check_positive("width", self.width, 1)
        check_whole("seed", self.seed, 0)


@cache
def quotes() -> EventBatch:
    """All 12,154 quotes, by date and then by ticker."""
    try:
        from bokeh_sampledata import stocks
    except ModuleNotFoundError:
        raise SetupError("stock quotes need bokeh_sampledata; install pleroma[experiments]") from None
    tables = {ticker: getattr(stocks, ticker) for ticker in TICKERS}
    dates = [date for table in tables.values() for date in table["date"]]
    tickers = [ticker for ticker, table in tables.items() for _ in table["date"]]
    order = sorted(range(len(dates)), key=lambda row: (dates[row], tickers[row]))
    numbers = {
        name: np.concatenate([table[name] for table in tables.values()])[order] for name in STOCK_SCHEMA.names[1:]
    }
    return EventBatch.from_columns(STOCK_SCHEMA, {"ticker": [tickers[row] for row in order], **numbers})


def generate_stock(model: StockModel | None = None) -> Workload:
    model = model or StockModel()
    events = quotes()
    filters = []
    numbers = STOCK_SCHEMA.attributes[1:]
    # one row of random numbers a subscription: a larger workload begins with the subscriptions of the smaller
    for drawn in np.random.default_rng(model.seed).random((model.subscriptions, 3 + 2 * len(numbers))).tolist():
        centre, at_least, which, *rest = drawn
        ticker, *values = events.event(int(centre * len(events))).value_keys
        chances, widths = rest[: len(numbers)], rest[len(numbers) :]
        always = int(at_least * len(numbers))
        ranges = [
            _only(STOCK_SCHEMA.attributes[0], ticker) if which < model.ticker else STOCK_SCHEMA.attributes[0].domain
        ]
        for d, attribute in enumerate(numbers):
            limited = d == always or chances[d] < model.ranges
            ranges.append(_around(attribute, values[d], 2 * model.width * widths[d]) if limited else attribute.domain)
        filters.append(Filter(STOCK_SCHEMA, (Box(tuple(ranges)),)))
    return Workload(STOCK_SCHEMA, events, tuple(filters), {"kind": "stock", "settings": asdict(model)})


def _only(attribute: Attribute, key: bytes) -> Range:
    return Range(key, attribute.successor(key))


def _around(attribute: Attribute, value: float, share: float) -> Range:
    """A range of that width around the value, with bounds that a person would write."""
    step = 1000.0 if attribute.name == "volume" else 0.01
    low = max(math.floor((value - value * share / 2) / step) * step, 0.0)
    high = math.ceil((value + value * share / 2) / step) * step
    return Range(round(low, 2), attribute.successor(min(round(high, 2), attribute.extent[1])))
