from functools import partial

import numpy as np
import pytest

from pleroma.content import Category, Filter, Integer, Real, Schema, Text
from pleroma.content.batch import EventBatch
from pleroma.errors import ContentError
from pleroma.matching import brute_force, group_matches


@pytest.fixture(params=["every pair", "the engine"])
def wanted_by(request):
    return brute_force.wanted_by if request.param == "every pair" else partial(group_matches.wanted_by, few=0)


QUOTES = Schema(
    "quotes",
    (
        Real("price", False, 0, 100),
        Integer("volume", True, 0, 9),
        Text("ticker", False),
        Category("side", False, ("buy", "sell")),
    ),
)


def some_events(count):
    random = np.random.default_rng(4)
    tickers = np.array(["AAPL", "AAPL.long.name.one", "AAPL.long.name.two", "", "é", "zz"], object)
    return EventBatch.from_columns(
        QUOTES,
        {
            "price": random.uniform(0, 100, count),
            "volume": [None if v == 9 else int(v) for v in random.integers(0, 10, count)],
            "ticker": tickers[random.integers(0, len(tickers), count)],
            "side": np.array(["buy", "sell"], object)[random.integers(0, 2, count)],
        },
    )


def test_a_group_wants_what_any_of_its_filters_matches(wanted_by):
    texts = [
        "price < 40 and volume >= 3",
        "ticker == 'AAPL.long.name.two'",
        "ticker > 'AAPL.long.name.one' and side == 'sell'",
        "not exists volume",
        "volume in (1, 5) or price > 99",
        "ticker startswith 'AAPL.long'",
    ]
    filters = [Filter.parse(QUOTES, text) for text in texts]
    events = some_events(400)
    groups = [[], filters[:1], filters[1:3], filters[3:], [Filter.nothing(QUOTES)], [Filter.everything(QUOTES)]]
    wanted = wanted_by(groups, events)
    by_hand = [[any(f.matches(event) for f in group) for event in events] for group in groups]
    assert wanted.tolist() == by_hand
    assert wanted[1:4].any(axis=1).all(), "the example shows nothing if nothing matches"


def test_filters_of_another_schema_are_refused(wanted_by):
    other = Schema("other", (Integer("n", False, 0, 1),))
    with pytest.raises(ContentError, match="schema"):
        wanted_by([[Filter.everything(other)]], some_events(3))


def test_no_events_and_no_groups(wanted_by):
    assert wanted_by([], some_events(3)).shape == (0, 3)
    assert wanted_by([[Filter.everything(QUOTES)]], some_events(0)).shape == (1, 0)
