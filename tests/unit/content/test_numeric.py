import math
import sys

import pytest

from pleroma.content import Integer, Range, Real
from pleroma.errors import DomainError, SchemaError

VOLUME = Integer("volume", False, -5, 1023)
PRICE = Real("price", False, 0, 1000)
ENORMOUS = 10**5000  # Python refuses to print it
NOT_NUMBERS = [True, False, "5", b"5", [5], {}, math.nan, 5j, object()]


@pytest.mark.parametrize("value", NOT_NUMBERS)
@pytest.mark.parametrize("attribute", [VOLUME, PRICE])
def test_what_is_no_number_is_refused(attribute, value):
    with pytest.raises(DomainError) as refused:
        attribute.key(value)
    assert str(refused.value).endswith(f" is not {attribute.kind}")
    assert refused.value.field == attribute.name
    assert refused.value.value is value


@pytest.mark.parametrize("value", [1024, -6, 10**30, 1e30])
def test_an_integer_outside_its_domain_is_refused(value):
    with pytest.raises(DomainError, match=r"^volume: .* is outside \[-5, 1023\]$"):
        VOLUME.key(value)


@pytest.mark.parametrize("value", [-5e-324, 1000.0000001, 10**400, math.inf, -math.inf, -1])
def test_a_real_outside_its_domain_is_refused(value):
    with pytest.raises(DomainError, match=r"^price: .* is outside \[0, 1000\]$"):
        PRICE.key(value)


@pytest.mark.parametrize("attribute", [VOLUME, PRICE])
def test_a_number_too_long_to_print_is_refused_in_a_short_line(attribute):
    with pytest.raises(DomainError, match=r"^\w+: an enormous number is outside \[.*\]$"):
        attribute.key(ENORMOUS)


@pytest.mark.parametrize("value", [0.5, math.inf, -math.inf])
def test_an_integer_has_no_fraction(value):
    with pytest.raises(DomainError, match=r"^volume: .* is not integer$"):
        VOLUME.key(value)


def test_a_float_without_a_fraction_is_an_integer():
    key = VOLUME.key(5.0)
    assert key == 5
    assert isinstance(key, int)


def test_both_zeros_are_one_value():
    assert str(PRICE.key(-0.0)) == "0.0"
    assert PRICE.select("==", -0.0) == PRICE.select("==", 0)


def test_the_double_after_the_last_negative_one_is_plain_zero():
    around_zero = Real("a", False, -1, 1)
    assert str(around_zero.successor(-5e-324)) == "0.0"
    assert str(Real("a", False, -5e-324, 1, open_low=True).present.lo) == "0.0"


def test_an_open_bound_excludes_its_value():
    inside = Real("a", False, 0, 1, open_low=True, open_high=True)
    assert inside.describe() == "(0, 1)"
    assert inside.key(math.nextafter(0, 1)) in inside.present
    assert inside.key(math.nextafter(1, 0)) in inside.present
    for value in (0, 1):
        with pytest.raises(DomainError, match=rf"^a: {value} is outside \(0, 1\)$"):
            inside.key(value)


def test_the_largest_double_can_be_a_bound():
    attribute = Real("a", True, 0, sys.float_info.max)
    assert attribute.select(">=", sys.float_info.max) == (Range(sys.float_info.max, math.inf),)
    assert attribute.span(attribute.present) == (0.0, sys.float_info.max)
    with pytest.raises(DomainError):
        attribute.key(math.inf)


@pytest.mark.parametrize("attribute", [Integer("a", False, 7, 7), Real("a", False, 7, 7)])
def test_a_domain_of_one_value_needs_no_bits(attribute):
    assert attribute.bits == 0
    assert attribute.select("==", 7) == (attribute.present,)
    assert attribute.select("!=", 7) == attribute.select("<", 7) == attribute.select(">", 7) == ()
    assert attribute.span(attribute.present) == (7.0, 7.0)


def test_an_open_domain_can_hold_a_single_double():
    attribute = Real("a", False, 0, math.nextafter(5e-324, 1), open_low=True, open_high=True)
    assert attribute.key(5e-324) == 5e-324
    assert attribute.bits == 0


def test_the_largest_integer_domain_is_exact():
    most = 2**53 - 1
    attribute = Integer("a", True, -most, most)
    assert attribute.coordinate(most) - attribute.coordinate(most - 1) == 1.0
    assert attribute.coordinate(1 - most) - attribute.coordinate(-most) == 1.0
    assert attribute.bits == 54
    assert attribute.absent == -(2**53)


@pytest.mark.parametrize("bounds", [(0, 2**53), (-(2**53), 0), (0, ENORMOUS)], ids=["above", "below", "enormous"])
def test_integers_that_doubles_cannot_tell_apart_are_refused(bounds):
    with pytest.raises(SchemaError, match=r"^a: integer bounds must lie within ±2\*\*53$"):
        Integer("a", False, *bounds)


@pytest.mark.parametrize("bound", [0.0, True, "5", None, math.inf])
def test_an_integer_bound_is_a_whole_number(bound):
    with pytest.raises(SchemaError, match=r"^a: .* is not a whole number$"):
        Integer("a", False, bound, 9)
    with pytest.raises(SchemaError, match=r"^a: .* is not a whole number$"):
        Integer("a", False, 0, bound)


@pytest.mark.parametrize("bound", [True, "5", None, math.inf, -math.inf, math.nan, 10**400])
def test_a_real_bound_is_a_finite_double(bound):
    with pytest.raises(SchemaError, match=r"^a: .* is not a finite double$"):
        Real("a", False, bound, 9)
    with pytest.raises(SchemaError, match=r"^a: .* is not a finite double$"):
        Real("a", False, 0, bound)


def test_a_bound_too_long_to_print_is_refused_in_a_short_line():
    with pytest.raises(SchemaError, match=r"^a: an enormous number is not a finite double$"):
        Real("a", False, 0, ENORMOUS)


def test_a_domain_wider_than_a_double_is_refused():
    with pytest.raises(SchemaError, match=r"^a: the bounds are too far apart for a double$"):
        Real("a", False, -sys.float_info.max, sys.float_info.max)


def test_an_empty_domain_is_refused():
    with pytest.raises(SchemaError, match=r"^a: the domain \[3, 2\] is empty$"):
        Integer("a", False, 3, 2)
    with pytest.raises(SchemaError, match=r"^a: the domain \[3, 2.5\] is empty$"):
        Real("a", False, 3, 2.5)
    with pytest.raises(SchemaError, match=r"^a: the domain \(2, 2\] is empty$"):
        Real("a", False, 2, 2, open_low=True)
    with pytest.raises(SchemaError, match=r"^a: the domain \(0, 5e-324\) is empty$"):
        Real("a", False, 0, 5e-324, open_low=True, open_high=True)


def test_an_error_shows_every_digit_of_a_bound():
    with pytest.raises(DomainError, match=r"^a: 1234567.5 is outside \[0.1, 1234567\]$"):
        Real("a", False, 0.1, 1234567).key(1234567.5)


def test_bounds_are_written_the_short_way():
    (above,) = PRICE.select(">", 50)
    (below,) = PRICE.select("<", 0.1)
    (between,) = PRICE.select("between", [0.1, 50])
    assert PRICE.conditions(above) == ((">", 50.0),)
    assert PRICE.conditions(below) == (("<", 0.1),)
    assert PRICE.conditions(between) == (("between", [0.1, 50.0]),)
    assert PRICE.conditions(above.meet(PRICE.select("<=", 60)[0])) == ((">", 50.0), ("<=", 60.0))
