"""Covering between brokers: what is asked for is what all want together, and nothing of it lies inside the rest."""

from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from pleroma.broker import covering as covering_module
from pleroma.broker.covering import Covering
from pleroma.content import Filter, Integer, Schema, Text
from support.strategies import STOCK, filters, schemas

SMALL = Schema("small", (Integer("x", False, 0, 7), Integer("y", True, 0, 3), Text("t", False)))


@st.composite
def small_filters(draw):
    """Narrow, so that many lie inside others."""
    x, y = draw(st.integers(0, 6)), draw(st.integers(0, 3))
    texts = ["true", f"x >= {x}", f"x < {x + 1}", f"y == {y}", "exists y", "t startswith 'a'", "t == 'ab'"]
    parts = draw(st.lists(st.sampled_from(texts), min_size=1, max_size=3))
    made = Filter.parse(SMALL, f" {draw(st.sampled_from(['and', 'or']))} ".join(parts))
    return made or Filter.everything(SMALL)


def check(covering, there):
    outermost = dict(covering.outermost)
    assert len(covering) == len(there)
    assert all(there[name] is wanted for name, wanted in outermost.items())
    for name, wanted in there.items():
        if name not in outermost:
            assert any(other.covers(wanted) for other in outermost.values())
    for name, wanted in outermost.items():
        others = [other for each, other in outermost.items() if each != name]
        assert not any(other.covers(wanted) for other in others)


@given(st.lists(st.tuples(st.integers(0, 9), st.one_of(st.none(), small_filters())), max_size=30))
@settings(deadline=None)
def test_the_outermost_cover_all_and_none_of_each_other(steps):
    covering, there = Covering(), {}
    for number, wanted in steps:
        name = str(number)
        if name in there:
            del there[name]
            covering.remove(name)
        if wanted is not None:
            there[name] = wanted
            covering.add(name, wanted)
        check(covering, there)


@given(st.data())
@settings(deadline=None, max_examples=50)
def test_it_holds_for_filters_of_any_schema(data):
    schema = data.draw(schemas())
    wanted = [each for each in data.draw(st.lists(filters(schema), max_size=8)) if each]
    covering, there = Covering(), {}
    for number, each in enumerate(wanted):
        there[str(number)] = each
        covering.add(str(number), each)
    check(covering, there)
    for name in list(there):
        del there[name]
        covering.remove(name)
        check(covering, there)


def test_when_the_one_that_covers_goes_the_covered_come_to_light():
    covering = Covering()
    for name, text in (("wide", "price < 500"), ("inner", "price < 100"), ("innermost", "price < 10")):
        covering.add(name, Filter.parse(STOCK, text))
    assert list(covering.outermost) == ["wide"]
    covering.remove("wide")
    assert list(covering.outermost) == ["inner"]
    covering.add("wide", Filter.parse(STOCK, "price < 500"))
    assert list(covering.outermost) == ["wide"]


def test_of_equal_filters_one_stands_for_all():
    covering = Covering()
    for name in "abc":
        covering.add(name, Filter.parse(STOCK, "price < 500"))
    assert list(covering.outermost) == ["a"]
    covering.remove("a")
    assert len(covering.outermost) == 1
    covering.remove("b")
    assert list(covering.outermost) == ["c"]


def test_what_was_never_there_can_be_removed():
    covering = Covering()
    covering.add("wide", Filter.parse(STOCK, "price < 500"))
    covering.remove("nothing")
    assert list(covering.outermost) == ["wide"]


@given(st.lists(small_filters(), max_size=12), st.integers(0, 40))
@settings(deadline=None, max_examples=50)
def test_where_comparing_takes_too_long_more_is_outermost_and_nothing_is_lost(wanted, units):
    with patch.object(covering_module, "MAX_COVERING_WORK_UNITS", units):
        covering = Covering()
        for number, each in enumerate(wanted):
            covering.add(str(number), each)
        for number in range(0, len(wanted), 3):
            covering.remove(str(number))
        there = {str(number): each for number, each in enumerate(wanted) if number % 3}
        assert len(covering) == len(there)
        assert all(any(other.covers(each) for other in covering.outermost.values()) for each in there.values())
        if not units:
            assert dict(covering.outermost) == there
