import subprocess
import sys

import pytest

from pleroma.content import Filter
from pleroma.errors import SetupError, WorkloadError
from pleroma.workloads import StockModel, generate_stock, quotes


@pytest.fixture(scope="module")
def workload():
    return generate_stock()


def test_all_quotes_are_there():
    assert len(quotes()) == 12_154
    counts = {t: int(quotes().matches(Filter.parse(quotes().schema, f"ticker = '{t}'")).sum()) for t in TICKER_COUNTS}
    assert counts == TICKER_COUNTS


TICKER_COUNTS = {"AAPL": 3270, "FB": 196, "GOOG": 2148, "IBM": 3270, "MSFT": 3270}


def test_quotes_come_by_date_and_then_by_ticker():
    first, last = list(quotes()[:4]), list(quotes()[-5:])
    assert [event["ticker"] for event in first] == ["AAPL", "IBM", "MSFT", "AAPL"]
    assert [event["ticker"] for event in last] == ["AAPL", "FB", "GOOG", "IBM", "MSFT"]
    # Apple's first day in the data, 1 March 2000, and Google's last, 1 March 2013
    assert (first[0]["open"], first[0]["close"], first[0]["volume"]) == (118.56, 130.31, 9_616_100)
    assert last[2]["close"] == 806.19


def test_the_low_of_a_day_is_not_above_its_high():
    for event in quotes():
        assert event["low"] <= event["high"]


def test_the_same_seed_gives_the_same_subscriptions_and_another_others(workload):
    assert generate_stock(StockModel()) == workload
    assert generate_stock(StockModel(seed=1)).subscriptions != workload.subscriptions
    assert generate_stock(StockModel(subscriptions=10)).subscriptions == workload.subscriptions[:10]


def test_every_subscription_wants_at_least_the_quote_it_was_drawn_around(workload):
    assert all(workload.events.matches(each).any() for each in workload.subscriptions)


def test_every_subscription_limits_a_number_and_most_name_a_ticker(workload):
    limited = [
        [part != a.domain for a, part in zip(each.schema.attributes, each.boxes[0].ranges, strict=True)]
        for each in workload.subscriptions
    ]
    assert all(any(numbers) for _, *numbers in limited)
    assert sum(ticker for ticker, *_ in limited) / 1000 == pytest.approx(0.9, abs=0.03)
    assert sum(sum(numbers) for _, *numbers in limited) / 1000 == pytest.approx(1 + 0.4 * 5, abs=0.15)


def test_without_tickers_and_further_ranges_one_number_alone_is_limited():
    for each in generate_stock(StockModel(subscriptions=50, ticker=0, ranges=0)).subscriptions:
        (box,) = each.boxes
        assert sum(part != a.domain for a, part in zip(each.schema.attributes, box.ranges, strict=True)) == 1


def test_wider_ranges_match_more():
    def wanted(width):
        made = generate_stock(StockModel(subscriptions=200, width=width))
        return sum(int(made.events.matches(each).sum()) for each in made.subscriptions)

    assert wanted(0.05) < wanted(0.2) < wanted(0.8)


def test_bounds_are_written_as_people_write_them(workload):
    text = str(workload.subscriptions[0])
    assert Filter.parse(workload.schema, text) == workload.subscriptions[0]
    assert all(len(word.partition(".")[2]) <= 2 for word in text.split() if word[0].isdigit())


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"subscriptions": -1}, "subscriptions"),
        ({"ticker": 1.5}, "ticker"),
        ({"ranges": "all"}, "ranges"),
        ({"width": 0}, "width"),
        ({"seed": -1}, "seed"),
    ],
)
def test_an_impossible_setting_gets_one_clear_error(settings, field):
    with pytest.raises(WorkloadError) as caught:
        StockModel(**settings)
    assert caught.value.field == field


def test_reading_quotes_does_not_load_pandas():
    code = "import sys; from pleroma.workloads import quotes; quotes(); sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_the_data_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "bokeh_sampledata", None)
    quotes.cache_clear()
    with pytest.raises(SetupError, match="pleroma\\[experiments\\]"):
        quotes()
