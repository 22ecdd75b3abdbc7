import json

import pytest

from pleroma.content import Filter
from pleroma.content.filter_json import from_json, to_json
from pleroma.errors import ContentError, DomainError, FilterSyntax, UnknownName
from support.strategies import STOCK


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ([], "false"),
        ([{}], "true"),
        ({}, "true"),
        ({"price": {">=": 50}, "ticker": {"==": "AAPL"}}, "price >= 50 and ticker == 'AAPL'"),
        ([{"price": {"<": 5}}, {"volume": {"between": [10, 20]}}], "price < 5 or volume between 10 and 20"),
        ({"price": {">": 5, "<": 9, "!=": 7}}, "price > 5 and price < 9 and price != 7"),
        ({"ticker": {"startswith": "AA"}, "market": {"exists": False}}, "ticker startswith 'AA' and not exists market"),
        ({"market": {"in": ["lse", "nyse"], "or_absent": True}}, "market in ('lse', 'nyse') or not exists market"),
        ({"market": {"!=": "lse", "or_absent": False}}, "market != 'lse'"),
        ({"market": {"or_absent": True}}, "true"),
        ({"price": {"<": 5, "or_absent": True}}, "price < 5"),
        ({"price": {"<": 5, ">": 9}}, "false"),
    ],
)
def test_json_says_what_the_language_says(data, text):
    assert from_json(STOCK, data) == Filter.parse(STOCK, text)


def test_a_filter_is_written_the_short_way():
    quotes = "price > 5 and price < 9 and market != 'lse'"
    others = "ticker startswith 'A' and (not exists market or market == 'xetra')"
    assert to_json(Filter.parse(STOCK, f"{quotes} or {others}")) == [
        {"ticker": {"startswith": "A"}, "market": {"==": "xetra", "or_absent": True}},
        {"price": {">": 5.0, "<": 9.0}, "market": {"==": "xetra"}},
        {"price": {">": 5.0, "<": 9.0}, "market": {"in": ["nyse", "nasdaq"]}},
    ]


@pytest.mark.parametrize("value", ["\0", "\U0010ffff", "é", "a\nb", '"'])
def test_any_text_survives_json(value):
    wanted = Filter.where(STOCK, 2, STOCK["ticker"].select(">", value))
    assert from_json(STOCK, json.loads(json.dumps(to_json(wanted)))) == wanted


@pytest.mark.parametrize("data", [None, "true", 5, True])
def test_a_filter_is_a_list_of_boxes(data):
    with pytest.raises(FilterSyntax, match=r"^a filter is a list of boxes$"):
        from_json(STOCK, data)


@pytest.mark.parametrize("box", [None, "price > 5", 5, [], [{}]])
def test_a_box_is_an_object(box):
    with pytest.raises(FilterSyntax, match=r"^a box is an object of attribute to conditions$"):
        from_json(STOCK, [box])


@pytest.mark.parametrize("conditions", [None, 5, "> 5", [], {}])
def test_conditions_are_an_object_with_something_in_it(conditions):
    with pytest.raises(FilterSyntax, match=r"^price: conditions are an object of operator to value$"):
        from_json(STOCK, {"price": conditions})


@pytest.mark.parametrize("flag", ["false", 1, 0, None, []])
def test_or_absent_is_a_boolean(flag):
    with pytest.raises(FilterSyntax, match=r"^market: or_absent takes true or false, not "):
        from_json(STOCK, {"market": {"==": "lse", "or_absent": flag}})


@pytest.mark.parametrize(
    ("data", "kind", "line"),
    [
        ({"prise": {">": 5}}, UnknownName, "unknown attribute 'prise'; did you mean 'price'?"),
        ({"price": {">": 1200}}, DomainError, "price: 1200 is outside [0, 1000]"),
        ({"price": {">": True}}, DomainError, "price: True is not real"),
        ({"price": {">": None}}, DomainError, "price: None is not real"),
        ({"price": {"==": float("nan")}}, DomainError, "price: nan is not real"),
        ({"price": {"<": float("inf")}}, DomainError, "price: inf is outside [0, 1000]"),
        ({"volume": {"in": [1, [2]]}}, DomainError, "volume: [2] is not integer"),
        ({"volume": {"in": []}}, ContentError, "volume: in needs a list of at least one value"),
        ({"volume": {"between": [1]}}, ContentError, "volume: between needs a list of two values"),
        ({"volume": {"between": [9, 1]}}, ContentError, "volume: between 9 and 1 is reversed"),
        ({"ticker": {"==": "\ud800"}}, DomainError, r"ticker: '\ud800' is not text"),
        ({"market": {"exists": "no"}}, ContentError, "market: exists takes true or false, not 'no'"),
        (
            {"market": {"<\n": "lse"}},
            ContentError,
            r"market: <\n is not defined for category; use one of ==, !=, in, exists",
        ),
    ],
)
def test_a_wrong_value_is_refused_in_one_line(data, kind, line):
    with pytest.raises(kind) as refused:
        from_json(STOCK, data)
    assert str(refused.value) == line


def test_a_product_of_lists_is_refused_before_it_fills_the_memory():
    spread = {"in": list(range(0, 1000, 2))}
    with pytest.raises(ContentError, match=r"^the filter needs more than the 1024 boxes allowed$"):
        from_json(STOCK, {"price": spread, "volume": spread, "ticker": {"in": [str(i) for i in range(500)]}})
