import time

import pytest

from pleroma.content import Filter, Integer, Schema
from pleroma.content.language import MAX_TEXT
from pleroma.errors import ContentError, DomainError, FilterSyntax, PleromaError, UnknownName
from support.strategies import STOCK

DOTTED = Schema(
    "dotted",
    tuple(Integer(n, True, 0, 9) for n in ("not.before", "true.x", "exists.y", "false.z", "in.a", "nan", "inf", "e5")),
)


def matches(text, **values):
    event = STOCK.event({"price": 100, "volume": 10, "ticker": "AAPL"} | values)
    return Filter.parse(STOCK, text).matches(event)


def refusal(text, schema=STOCK):
    with pytest.raises(PleromaError) as refused:
        Filter.parse(schema, text)
    assert str(refused.value).isprintable()
    return refused.value


# -- meaning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "price > 50",
        "price >= 100 and price <= 100",
        "price = 100",
        "price == 1e2",
        "price=+100.",
        "volume != 11",
        "volume == 10.0",
        "volume between 5 and 10",
        "volume not between 11 and 20",
        "volume in (1, 10)",
        "volume NOT IN (1, 2)",
        'ticker startswith "AAP"',
        "ticker not startswith 'B'",
        "ticker < 'B' AND ticker > 'A'",
        "exists ticker",
        "not exists market",
        "not (price < 50 or volume > 20)",
        "true",
        "not false",
        "((price > 50))",
        "price>50and volume<20",
        "price > 50\n\tand\nvolume < 20",
        "volume between 5 and 15 and price between 50 and 150",
    ],
)
def test_these_hold_for_the_event(text):
    assert matches(text)
    assert not matches(f"not ({text})")


def test_and_binds_closer_than_or_and_not_closer_than_and():
    assert matches("price == 100 or price == 1 and volume == 2")
    assert not matches("(price == 100 or price == 1) and volume == 2")
    assert not matches("not price == 1 and volume == 2")
    assert matches("not (price == 1 and volume == 2)")


def test_not_includes_events_without_the_value_and_unequal_does_not():
    assert not matches("market != 'lse'")
    assert matches("not market == 'lse'")
    assert matches("market not in ('lse')")
    assert not matches("exists market and not market == 'lse'")
    assert matches("market != 'lse'", market="nyse")


def test_strings_know_escapes_and_both_quotes():
    odd = 'it\'s "5" \\ \n\t\0é\U0001f600'
    assert matches(r"""ticker == 'it\'s "5" \\ \n\t\u0000\u00e9\U0001F600'""", ticker=odd)
    assert matches(r'''ticker == "it's \"5\" \\ \n\t\u0000é😀"''', ticker=odd)
    assert matches("ticker == 'two\nlines'", ticker="two\nlines")


@pytest.mark.parametrize("name", DOTTED.names)
def test_a_name_may_begin_like_a_word_of_the_language(name):
    for text in (f"{name} == 3", f"not {name} != 3", f"exists {name} and not {name} in (1, 2)"):
        assert Filter.parse(DOTTED, text).matches(DOTTED.event({name: 3}))


def test_words_need_no_space_after_them():
    assert Filter.parse(STOCK, "not(price > 5)") == Filter.parse(STOCK, "price <= 5")
    assert Filter.parse(STOCK, "volume in(5)or(price = .5)") == Filter.parse(STOCK, "volume == 5 or price == 0.5")


# -- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "line"),
    [
        ("price > 1200", DomainError, "at 9: price: 1200 is outside [0, 1000]"),
        ("price between 5 and 1200", DomainError, "at 21: price: 1200 is outside [0, 1000]"),
        ("volume in (1, 2, 5000)", DomainError, "at 18: volume: 5000 is outside [0, 1023]"),
        ("volume in (1, 2.5, 3)", DomainError, "at 15: volume: 2.5 is not integer"),
        ("volume > 0 and volume < 5000.0", DomainError, "at 25: volume: 5000 is outside [0, 1023]"),
        ("price > nan", DomainError, "at 9: price: nan is not real"),
        ("price in (1, NaN)", DomainError, "at 14: price: nan is not real"),
        ("price < inf", DomainError, "at 9: price: inf is outside [0, 1000]"),
        ("price > -Infinity", DomainError, "at 9: price: -inf is outside [0, 1000]"),
        ("price < 1e999", DomainError, "at 9: price: inf is outside [0, 1000]"),
        ("volume < inf", DomainError, "at 10: volume: inf is not integer"),
        ("price == 'high'", DomainError, "at 10: price: 'high' is not real"),
        ("price > true", DomainError, "at 9: price: True is not real"),
        ("ticker == 5", DomainError, "at 11: ticker: 5 is not text"),
        ("ticker startswith 5", DomainError, "at 19: ticker: 5 is not text"),
        (r"ticker == '\ud800'", DomainError, r"at 11: ticker: '\ud800' is not text"),
        ("ticker == '\ud800'", DomainError, r"at 11: ticker: '\ud800' is not text"),
        ("price between 9 and 3", ContentError, "at 15: price: between 9 and 3 is reversed"),
        ("ticker between 'b' and 'a\n'", ContentError, r"at 16: ticker: between 'b' and 'a\n' is reversed"),
        ("market in ()", ContentError, "at 1: market: in needs a list of at least one value"),
        ("  prise > 5", UnknownName, "at 3: unknown attribute 'prise'; did you mean 'price'?"),
        ("exists Price", UnknownName, "at 8: unknown attribute 'Price'; did you mean 'price'?"),
        ("market == 'nasdac'", UnknownName, "at 11: market: unknown category 'nasdac'; did you mean 'nasdaq'?"),
        ("market in ('lse', 'x')", UnknownName, "at 19: market: unknown category 'x'; known: xetra, lse, nyse, nasdaq"),
        (
            "market < 'lse'",
            ContentError,
            "at 10: market: < is not defined for category; use one of ==, !=, in, exists",
        ),
        (
            "volume startswith '1'",
            ContentError,
            "at 19: volume: startswith is not defined for integer; "
            "use one of ==, !=, <, <=, >, >=, between, in, exists",
        ),
    ],
)
def test_a_wrong_value_is_pointed_at(text, kind, line):
    error = refusal(text)
    assert isinstance(error, kind)
    assert str(error) == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "at 1: unexpected the end; expected '(', an attribute, exists, false, not, true"),
        (" \n", "at 3: unexpected the end; expected '(', an attribute, exists, false, not, true"),
        ("price >", "at 8: unexpected the end; expected a value"),
        ("price", "at 6: unexpected the end; expected a comparison, between, in, not, startswith"),
        ("price ! 5", "at 7: unexpected '!'; expected a comparison, between, in, not, startswith"),
        ("price > 5 volume < 3", "at 11: unexpected 'volume'; expected and, or, the end"),
        ("price > volume", "at 9: unexpected 'volume'; expected a value"),
        ("5 < price", "at 1: unexpected '5'; expected '(', an attribute, exists, false, not, true"),
        ("(price > 5", "at 11: unexpected the end; expected ')'"),
        ("price > 5)", "at 10: unexpected ')'; expected the end"),
        ("volume in 5", "at 11: unexpected '5'; expected '('"),
        ("volume in (5,)", "at 14: unexpected ')'; expected a value"),
        ("volume between 5", "at 17: unexpected the end; expected and"),
        ("ticker == 'open", 'at 11: unexpected "\'"; expected a value'),
        ("price > 5 \ud800", None),
        ("price > 5 \0", None),
        ("\U0010ffff", None),
    ],
)
def test_a_wrong_word_is_pointed_at_with_what_could_stand_there(text, line):
    error = refusal(text)
    assert isinstance(error, FilterSyntax)
    if line is None:
        assert error.position == text.rstrip().rfind(text[-1]) + 1
    else:
        assert str(error) == line


def test_an_escape_that_is_no_character_is_refused():
    for escape in (r"\U00110000", r"\UFFFFFFFF"):
        error = refusal(f"ticker == '{escape}'")
        assert isinstance(error, FilterSyntax)
        assert error.position == 11
        assert str(error).endswith("has an escape that is no character")


def test_a_number_of_thousands_of_digits_is_refused():
    error = refusal("price > " + "1" * 5000)
    assert error.position == 9
    assert str(error).endswith("has too many digits")
    assert len(str(error)) < 200


def test_a_long_wrong_word_is_quoted_in_short():
    assert len(str(refusal("x" * 60_000 + " > 5"))) < 200
    assert len(str(refusal("price > " + "x" * 60_000))) < 200
    assert len(str(refusal("price > '" + "x" * 60_000 + "'"))) < 200


@pytest.mark.parametrize("text", [None, 5, b"true", ["true"]])
def test_a_filter_is_a_text(text):
    assert str(refusal(text)) == f"a filter is a text, not {type(text).__name__}"


# -- limits ----------------------------------------------------------------------------------------------------------


def test_a_text_may_be_long_but_not_longer():
    text = "price > 5".ljust(MAX_TEXT)
    assert Filter.parse(STOCK, text)
    assert str(refusal(text + " ")) == f"the filter has {MAX_TEXT + 1} characters, at most {MAX_TEXT} are allowed"


def test_parentheses_cost_nothing():
    deep = 30_000
    assert Filter.parse(STOCK, "(" * deep + "price > 5" + ")" * deep) == Filter.parse(STOCK, "price > 5")


@pytest.mark.parametrize("text", ["not " * 16_000 + "true", "(true and (true or " * 3000 + "true" + "))" * 3000])
def test_deep_nesting_is_refused(text):
    assert str(refusal(text)) == "the filter is nested too deeply"


def test_moderate_nesting_is_fine():
    assert not Filter.parse(STOCK, "not " * 99 + "true")
    assert Filter.parse(STOCK, "(price > 5 and (volume > 5 or " * 50 + "true" + "))" * 50)


def test_a_filter_of_too_many_boxes_is_refused():
    listed = ", ".join(str(2 * i) for i in range(40))
    text = f"volume in ({listed}) and price in ({listed})"
    assert str(refusal(text)) == "the filter needs more than the 1024 boxes allowed"


def test_a_long_union_is_parsed_in_a_moment():
    began = time.perf_counter()
    parsed = Filter.parse(STOCK, " or ".join(f"price == {i / 2}" for i in range(1000)))
    assert len(parsed.boxes) == 1000
    assert time.perf_counter() - began < 5
