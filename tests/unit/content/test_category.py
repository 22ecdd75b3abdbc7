import pytest

from pleroma.content import Category, Range
from pleroma.errors import ContentError, DomainError, SchemaError, UnknownName

MARKET = Category("market", True, ("xetra", "lse", "nyse", "nasdaq"))
LONG = pytest.param("x" * 100_000, id="long")


def test_the_order_of_the_list_is_the_place_on_the_axis():
    assert [MARKET.key(word) for word in MARKET.values] == [0, 1, 2, 3]
    assert MARKET.select("in", ["nyse", "lse"]) == (Range(1, 3),)


def test_an_unknown_category_comes_with_the_nearest_one():
    with pytest.raises(UnknownName, match=r"^market: unknown category 'nasdac'; did you mean 'nasdaq'\?$") as refused:
        MARKET.key("nasdac")
    assert refused.value.suggestion == "nasdaq"


def test_a_category_like_no_other_comes_with_those_there_are():
    with pytest.raises(UnknownName, match=r"^market: unknown category 'Tōkyō'; known: xetra, lse, nyse, nasdaq$"):
        MARKET.key("Tōkyō")


@pytest.mark.parametrize("value", [0, True, 1.5, b"lse", ["lse"]])
def test_a_place_in_the_list_is_not_a_category(value):
    with pytest.raises(DomainError, match=r" is not category$"):
        MARKET.key(value)


@pytest.mark.parametrize("value", ["\ud800", "\0", "\U0010ffff", "", "line\nbreak\u2028", LONG])
def test_any_text_is_refused_in_one_short_line(value):
    with pytest.raises(UnknownName) as refused:
        MARKET.key(value)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 200


def test_words_that_span_lines_do_not_break_the_error():
    with pytest.raises(UnknownName, match=r"known: one\\ntwo$"):
        Category("a", False, ("one\ntwo",)).key("?")


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">=", "between", "startswith"])
def test_categories_have_no_order(operator):
    with pytest.raises(ContentError, match=rf"^market: {operator} is not defined for category; use one of ==, !=, in"):
        MARKET.select(operator, "lse")


def test_a_category_of_one_word_needs_no_bits():
    only = Category("a", False, ("x",))
    assert only.bits == 0
    assert only.select("==", "x") == (only.domain,)
    assert only.select("!=", "x") == ()


def test_a_category_of_many_words_has_bits_for_all():
    many = Category("a", False, tuple(map(str, range(1025))))
    assert many.bits == 11
    assert many.key("1024") == 1024


def test_an_empty_list_is_refused():
    with pytest.raises(SchemaError, match=r"^market: a category needs at least one value$"):
        Category("market", False, ())


def test_a_word_listed_twice_is_refused():
    with pytest.raises(SchemaError, match=r"^market: 'lse' is listed twice$"):
        Category("market", False, ("lse", "nyse", "lse"))


@pytest.mark.parametrize("word", [1, True, None, ["lse"], "\ud800", "half\udfff"])
def test_what_is_no_text_is_no_word(word):
    with pytest.raises(SchemaError, match=r"^market: .* is not a word$"):
        Category("market", False, ("lse", word))
