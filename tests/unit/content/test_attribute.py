"""What all kinds of attribute do alike."""

import pytest

from pleroma.content import Category, Integer, Range, Real, Text
from pleroma.content.attribute import check_name
from pleroma.errors import ContentError, DomainError, SchemaError

OPTIONAL = [
    Integer("a", True, 0, 9),
    Real("a", True, 0, 9),
    Real("a", True, 0, 9, open_low=True, open_high=True),
    Category("a", True, ("x", "y")),
    Text("a", True),
    Text("a", True, "hash"),
]
REQUIRED = [Integer("a", False, 0, 9), Real("a", False, 0, 9), Category("a", False, ("x", "y")), Text("a", False)]


@pytest.mark.parametrize("attribute", OPTIONAL)
def test_absence_lies_below_every_value(attribute):
    assert attribute.key(None) == attribute.absent == attribute.domain.lo
    assert attribute.absent < attribute.present.lo
    assert attribute.value(attribute.absent) is None


@pytest.mark.parametrize("attribute", REQUIRED)
def test_a_required_value_may_not_be_missing(attribute):
    assert attribute.domain == attribute.present
    with pytest.raises(DomainError, match=r"^a: a value is required$"):
        attribute.key(None)


@pytest.mark.parametrize("attribute", OPTIONAL)
def test_exists_splits_the_domain_in_two(attribute):
    assert attribute.select("exists", True) == (attribute.present,)
    assert attribute.select("exists", False) == (Range(attribute.absent, attribute.present.lo),)


@pytest.mark.parametrize("attribute", REQUIRED)
def test_what_is_required_always_exists(attribute):
    assert attribute.select("exists", True) == (attribute.domain,)
    assert attribute.select("exists", False) == ()


@pytest.mark.parametrize("operand", [1, 0, "true", None, []])
@pytest.mark.parametrize("attribute", OPTIONAL)
def test_exists_takes_a_boolean_only(attribute, operand):
    with pytest.raises(ContentError, match=r"^a: exists takes true or false, not "):
        attribute.select("exists", operand)


@pytest.mark.parametrize("attribute", OPTIONAL)
def test_an_absent_value_satisfies_no_comparison(attribute):
    value = attribute.value(attribute.successor(attribute.present.lo)) if attribute.kind != "text" else "m"
    for operator in attribute.operators:
        operand = {"in": [value], "between": [value, value]}.get(operator, value)
        assert not any(attribute.absent in part for part in attribute.select(operator, operand)), operator


@pytest.mark.parametrize("attribute", OPTIONAL)
def test_an_operator_that_a_kind_lacks_is_refused_with_those_it_has(attribute):
    with pytest.raises(ContentError, match=rf"^a: ~ is not defined for {attribute.kind}; use one of ==, !=, .*exists$"):
        attribute.select("~", 1)


@pytest.mark.parametrize("attribute", OPTIONAL)
@pytest.mark.parametrize("operand", [[], (), "xy", None, 5, {"x": 1}])
def test_in_needs_a_list_with_something_in_it(attribute, operand):
    with pytest.raises(ContentError, match=r"^a: in needs a list of at least one value$"):
        attribute.select("in", operand)


@pytest.mark.parametrize("operand", [[], [1], [1, 2, 3], "12", None, 5])
def test_between_needs_two_values(operand):
    with pytest.raises(ContentError, match=r"^a: between needs a list of two values$"):
        OPTIONAL[0].select("between", operand)


def test_between_includes_both_ends_and_may_be_one_value():
    assert Integer("a", False, 0, 9).select("between", [3, 3]) == (Range(3, 4),)
    assert Integer("a", False, 0, 9).select("between", (3, 5)) == (Range(3, 6),)


@pytest.mark.parametrize(
    ("attribute", "operand", "quoted"),
    [
        (Integer("a", False, 0, 9), [5, 3], "5 and 3"),
        (Real("a", False, 0, 9), [5.5, 3], "5.5 and 3"),
        (Text("a", False), ["b\n", "a"], r"'b\\n' and 'a'"),
    ],
)
def test_a_reversed_range_is_refused(attribute, operand, quoted):
    with pytest.raises(ContentError, match=rf"^a: between {quoted} is reversed$"):
        attribute.select("between", operand)


def test_in_joins_neighbours():
    assert Integer("a", False, 0, 9).select("in", [5, 3, 4, 8, 4]) == (Range(3, 6), Range(8, 9))


def test_comparing_with_an_end_of_the_domain_selects_nothing_or_everything():
    attribute = Integer("a", False, 0, 9)
    assert attribute.select("<", 0) == ()
    assert attribute.select(">", 9) == ()
    assert attribute.select(">=", 0) == attribute.select("<=", 9) == (attribute.present,)


def test_values_nested_without_end_are_quoted_in_short():
    nested: list = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(DomainError) as refused:
        OPTIONAL[0].key(nested)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("name", ["price", "_", "a1", "stock.price", "A.b_2.C", "nan", "inf", "not.before", "x.in"])
def test_names_are_words_joined_by_dots(name):
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "1a", "a b", "a.", ".a", "a..b", "a-b", "é", "a\n", "a.1", None, 5, ["a"], True])
def test_other_names_are_refused(name):
    with pytest.raises(SchemaError, match="name"):
        check_name(name)


@pytest.mark.parametrize("name", ["and", "OR", "Not", "in", "between", "exists", "startswith", "true", "FALSE"])
def test_a_word_of_the_language_is_no_name(name):
    with pytest.raises(SchemaError, match=rf"^name: '{name}' is a word of the filter language$"):
        check_name(name)
