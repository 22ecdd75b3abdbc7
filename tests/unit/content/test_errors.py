import pickle

import pytest

from pleroma.errors import ContentError, PleromaError, UnknownName, shown


def test_an_error_is_one_line_whatever_it_quotes():
    error = PleromaError("no\nsuch\u2028thing \ud800", field="a\0b")
    assert str(error) == r"a\x00b: no\nsuch\u2028thing \ud800"
    assert error.reason == "no\nsuch\u2028thing \ud800"


def test_an_error_keeps_the_first_place_it_was_given():
    error = ContentError("wrong", field="price").at(3).at(9)
    assert error.position == 3
    assert str(error) == "at 3: price: wrong"


def test_a_suggestion_is_made_where_there_is_something_near():
    assert UnknownName("name", "prise", ["volume", "price"]).suggestion == "price"
    assert UnknownName("name", "PRICE", ["volume", "price"]).suggestion == "price"
    assert UnknownName("name", "temp", ["wind", "temperature"]).suggestion == "temperature"
    assert UnknownName("name", "latencies", ["wind", "latency"]).suggestion == "latency"


@pytest.mark.parametrize(
    ("name", "known"), [("zzz", "price"), ("delay", "latency"), ("R7", "R3"), ("cost", "close"), ("te", "temperature")]
)
def test_nothing_is_guessed_where_nothing_is_near(name, known):
    error = UnknownName("name", name, [known, "x"])
    assert error.suggestion is None
    assert str(error) == f"unknown name {name!r}; known: {known}, x"


def test_where_nothing_is_known_the_error_says_so():
    assert str(UnknownName("name", "a", [])) == "unknown name 'a'; known: none"


def test_values_are_shown_in_short():
    assert shown("AAPL") == "'AAPL'"
    assert shown(5000) == "5000"
    assert shown(0.1) == "0.1"
    assert len(shown("x" * 10_000)) < 80
    assert len(shown(10**400)) < 80
    assert len(shown([["x" * 10_000] * 1000] * 1000)) < 600
    assert shown(10**5000) == "an enormous number"


def test_an_error_survives_the_way_to_another_process():
    sent = UnknownName("category", "nasdac", ["lse", "nasdaq"], field="market").at(11)
    received = pickle.loads(pickle.dumps(sent))  # noqa: S301
    assert type(received) is UnknownName
    assert str(received) == str(sent) == "at 11: market: unknown category 'nasdac'; did you mean 'nasdaq'?"
    assert (received.field, received.value, received.suggestion) == ("market", "nasdac", "nasdaq")
    assert received.args == sent.args
