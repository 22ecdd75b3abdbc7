import pytest

from pleroma.content import Range, Text
from pleroma.content.text import CODE_BITS
from pleroma.errors import DomainError, SchemaError

ORDERED = Text("ticker", True)
HASHED = Text("ticker", True, "hash")
LONG = pytest.param("x" * 100_000, id="long")
LAST = float(2**CODE_BITS - 1)


def selects(operator, operand, value):
    return any(ORDERED.key(value) in part for part in ORDERED.select(operator, operand))


@pytest.mark.parametrize("value", ["", "\0", "a", "a\0", "é", "\ud7ff", "\ue000", "\U0010ffff", "日本", LONG])
def test_any_unicode_text_is_a_value(value):
    assert ORDERED.value(ORDERED.key(value)) == value
    assert selects("==", value, value)
    assert selects("startswith", value, value + "\U0010ffff")


@pytest.mark.parametrize("value", ["\ud800", "a\udfff"])
def test_half_a_character_is_not_text(value):
    with pytest.raises(DomainError, match=r"^ticker: '.*\\ud.*' is not text$") as refused:
        ORDERED.key(value)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("value", [5, True, 1.5, b"AAPL", ["AAPL"]])
def test_what_is_no_text_is_refused(value):
    with pytest.raises(DomainError, match=r"^ticker: .* is not text$"):
        ORDERED.key(value)


def test_text_is_ordered_by_code_point():
    words = ["", "\0", "A", "AA", "B", "a", "é", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"]
    assert sorted(words, key=ORDERED.key) == words == sorted(words)


def test_a_prefix_selects_itself_and_all_that_begins_with_it():
    assert [v for v in ("A", "AA", "AAP", "AAPL", "AAQ", "AB") if selects("startswith", "AAP", v)] == ["AAP", "AAPL"]


def test_the_empty_prefix_selects_every_text():
    assert ORDERED.select("startswith", "") == (ORDERED.present,)


@pytest.mark.parametrize(
    ("prefix", "inside", "outside"),
    [
        ("a\U0010ffff", "a\U0010ffffz", "b"),
        ("\U0010ffff", "\U0010ffff\U0010ffff", "\uffff"),
        ("\ud7ff", "\ud7ffx", "\ue000"),
        ("a\0", "a\0b", "a\x01"),
    ],
)
def test_a_prefix_may_end_in_the_last_character_there_is(prefix, inside, outside):
    assert selects("startswith", prefix, inside)
    assert not selects("startswith", prefix, outside)


def test_nothing_lies_below_the_empty_text():
    assert ORDERED.select("<", "") == ()
    assert ORDERED.select("<=", "") == ORDERED.select("==", "")
    assert selects(">", "", "\0")


def test_absent_is_not_the_empty_text():
    assert ORDERED.key(None) != ORDERED.key("")
    assert ORDERED.value(ORDERED.absent) is None
    assert ORDERED.value(ORDERED.key("")) == ""


def test_ordered_text_narrows_every_predicate():
    whole = LAST + 1
    for operator, operand in [("startswith", "AAPL"), ("==", "AAPL"), ("between", ["AAPL", "AAPM"])]:
        (part,) = ORDERED.select(operator, operand)
        first, last = ORDERED.span(part)
        assert last - first < whole / 2**24, operator
    (below,) = ORDERED.select("<", "B")
    assert ORDERED.span(below) == (0.0, ORDERED.coordinate(ORDERED.key("B")) - 1)


def test_hashed_text_narrows_equality_alone():
    (equal,) = HASHED.select("==", "AAPL")
    at = HASHED.coordinate(HASHED.key("AAPL"))
    assert HASHED.span(equal) == (at, at)
    for operator, operand in [("startswith", "AAPL"), ("<", "AAPL"), ("between", ["AAPL", "AAPM"])]:
        (part,) = HASHED.select(operator, operand)
        assert HASHED.span(part) == (0.0, LAST), operator


def test_a_hash_is_the_same_everywhere():
    assert HASHED.coordinate(HASHED.key("AAPL")) == float(0x40C9C61CDBCB)  # b2sum -l 48


def test_texts_alike_in_six_bytes_share_a_coordinate():
    assert ORDERED.coordinate(ORDERED.key("abcdefg")) == ORDERED.coordinate(ORDERED.key("abcdefh"))
    assert ORDERED.coordinate(ORDERED.key("abcdef")) < ORDERED.coordinate(ORDERED.key("abcdeg"))


def test_a_range_is_written_the_short_way():
    (after,) = ORDERED.select(">", "a")
    (upto,) = ORDERED.select("<=", "a")
    (prefixed,) = ORDERED.select("startswith", "a")
    assert ORDERED.conditions(after) == ((">", "a"),)
    assert ORDERED.conditions(upto) == (("<=", "a"),)
    assert ORDERED.conditions(prefixed) == (("startswith", "a"),)
    assert ORDERED.conditions(Range(after.lo, upto.lo + b"z")) == ((">", "a"), ("<", "z"))


@pytest.mark.parametrize("linearise", ["sorted", "", None, 5, ["hash"]])
def test_an_unknown_linearisation_is_refused(linearise):
    with pytest.raises(SchemaError, match=r"^ticker: linearise is one of order, hash, not "):
        Text("ticker", False, linearise)
