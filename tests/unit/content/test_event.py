import json
from collections import ChainMap
from collections.abc import Mapping

import pytest

from pleroma.content import Filter, Schema
from pleroma.errors import ContentError, NoValue
from support.strategies import STOCK

QUOTE = STOCK.event(price=150.25, volume=3, ticker="AAPL")
"""`market` is optional, and this event lacks it."""


def test_an_event_is_a_mapping_of_the_attributes_that_it_has():
    assert isinstance(QUOTE, Mapping)
    assert dict(QUOTE) == {"price": 150.25, "volume": 3, "ticker": "AAPL"}
    assert list(QUOTE) == list(QUOTE.keys()) == ["price", "volume", "ticker"]
    assert list(QUOTE.values()) == [150.25, 3, "AAPL"]
    assert ("volume", 3) in QUOTE.items()
    assert len(QUOTE) == 3
    assert "ticker" in QUOTE
    assert "market" not in QUOTE
    assert "colour" not in QUOTE
    assert 5 not in QUOTE
    assert {**QUOTE, "price": 1} == {"price": 1, "volume": 3, "ticker": "AAPL"}
    assert json.loads(json.dumps(dict(QUOTE))) == dict(QUOTE)
    assert STOCK.event(QUOTE) == QUOTE


def test_what_an_event_lacks_has_a_default_and_otherwise_is_a_key_error():
    assert QUOTE.get("price") == 150.25
    assert QUOTE.get("market") is None
    assert QUOTE.get("market", "lse") == QUOTE.get("colour", "lse") == "lse"
    assert ChainMap(QUOTE, {"market": "lse"})["market"] == "lse"  # it goes by KeyError
    with pytest.raises(KeyError) as lacking:
        QUOTE["market"]
    assert str(lacking.value) == "market: the event has no value of it"
    with pytest.raises(NoValue, match=r"^unknown attribute 'volumes'; did you mean 'volume'\?$") as unknown:
        QUOTE["volumes"]
    assert isinstance(unknown.value, ContentError)


def test_events_are_equal_and_hashed_by_schema_and_values():
    assert STOCK.event(dict(QUOTE)) == QUOTE
    assert len({QUOTE, STOCK.event(dict(QUOTE)), STOCK.event({**QUOTE, "volume": 4})}) == 2
    assert dict(QUOTE) != QUOTE
    other = Schema("other", STOCK.attributes)
    assert other.event(QUOTE) != QUOTE


def test_events_and_schemas_are_shown_in_short():
    assert str(QUOTE) == "{price=150.25, volume=3, ticker='AAPL'}"
    assert repr(QUOTE) == "Event('stock', {'price': 150.25, 'volume': 3, 'ticker': 'AAPL'})"
    assert repr(STOCK) == "Schema('stock', price: real, volume: integer, ticker: text, market: category | None)"
    assert repr(Filter.parse(STOCK, "price < 5 or volume = 1")) == "Filter('stock', 'price < 5 or volume == 1')"
