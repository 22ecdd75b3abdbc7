"""Random schemas, events, filters and filter texts.

Values come half from a small pool that depends only on the attribute (its ends and what lies beside them, texts that
begin alike), so that filters and events drawn apart still meet, and meet at the bounds.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from pleroma.content import (
    Attribute,
    Boolean,
    Box,
    Category,
    Event,
    Filter,
    Integer,
    Range,
    Real,
    Schema,
    Text,
    Timestamp,
    Value,
)
from pleroma.content.range import complement
from pleroma.errors import ContentError

STOCK = Schema.load(Path(__file__).parents[2] / "examples" / "stock.toml")
NAMES = ("a", "price", "X", "_", "e5", "inf", "nan", "not.before", "true.x", "in.y", "a.or", "existsx", "or_absent")
WORDS = ("xetra", "lse", "", "it's", 'say "no"', "back\\slash", "two words", "new\nline", "x and y", "ü", "\U0010ffff")
TEXTS = (
    *("", "\0", "a", "a\0", "a\0\0", "ab", "b", "AAPL", "AAPLE", "abcdef", "abcdefg", "abcdefh", "abcdeg"),
    *("'", '"', "\\", "\n\r\t", "\ud7ff", "\ud7ff\ue000", "\ue000", "é", "\x85\u2028", " or ", "\U0010ffff"),
    *("a\U0010ffff", "\U0010ffff\U0010ffff", "\U0010ffff\U0010ffffa"),
)
THIS_YEAR = tuple(int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000 for year in (2026, 2027))
ZONES = (UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=8)))
LARGEST_INTEGER = 2**53 - 1
LARGEST_REAL = math.nextafter(math.inf, 0) / 2  # two of these are still no infinity apart


def refusal(call: Callable[..., object], *arguments: Any) -> ContentError | None:
    """The error with which a call refuses its arguments, or None where it takes them."""
    try:
        call(*arguments)
    except ContentError as error:
        return error
    return None


# -- schemas ---------------------------------------------------------------------------------------------------------


@st.composite
def integers(draw: DrawFn, name: str) -> Integer:
    optional = draw(st.booleans())
    if draw(st.booleans()):
        low = draw(st.integers(-2, 2))
        return Integer(name, optional, low, low + draw(st.integers(0, 4)))
    low = draw(st.integers(-LARGEST_INTEGER, LARGEST_INTEGER))
    return Integer(name, optional, low, draw(st.integers(low, LARGEST_INTEGER)))


@st.composite
def timestamps(draw: DrawFn, name: str) -> Timestamp:
    near = draw(integers(name) | st.just(Integer(name, True, *THIS_YEAR)))
    return Timestamp(name, near.optional, near.low, near.high)


@st.composite
def reals(draw: DrawFn, name: str) -> Real:
    optional = draw(st.booleans())
    low = draw(st.sampled_from([0.0, -1.0, 0.1, -5e-324, -LARGEST_REAL]) | st.floats(-LARGEST_REAL, LARGEST_REAL))
    beside = math.nextafter(low, math.inf)  # a domain of so few doubles that all of them turn up
    near = [low, beside, math.nextafter(beside, math.inf), low + 1, low + 1000, LARGEST_REAL]
    high = min(draw(st.sampled_from(near) | st.floats(low, LARGEST_REAL)), LARGEST_REAL)
    inner = Real(name, optional, low, high)
    open_low, open_high = draw(st.booleans()), draw(st.booleans())
    after = inner.successor(low) if open_low else low
    is_empty = after > high or (open_high and after >= high)
    return inner if is_empty else Real(name, optional, low, high, open_low, open_high)


@st.composite
def categories(draw: DrawFn, name: str) -> Category:
    words = st.sampled_from(WORDS) | st.text(max_size=3)
    return Category(name, draw(st.booleans()), tuple(draw(st.lists(words, min_size=1, max_size=5, unique=True))))


def texts(name: str) -> SearchStrategy[Text]:
    return st.builds(Text, st.just(name), st.booleans(), st.sampled_from(("order", "hash")))


def attributes(name: str = "a") -> SearchStrategy[Attribute]:
    booleans = st.builds(Boolean, st.just(name), st.booleans())
    return integers(name) | reals(name) | categories(name) | texts(name) | timestamps(name) | booleans


@st.composite
def schemas(draw: DrawFn, most: int = 5) -> Schema:
    """One to `most` attributes of all kinds."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=most, unique=True))
    return Schema("drawn", tuple(draw(attributes(name)) for name in names))


@st.composite
def tiny_schemas(draw: DrawFn) -> Schema:
    """Few enough events to look at every one of them."""

    def attribute(name: str) -> Attribute:
        optional = draw(st.booleans())
        if draw(st.booleans()):
            return Integer(name, optional, -1, draw(st.integers(-1, 3)))
        return Category(name, optional, WORDS[: draw(st.integers(1, 4))])

    return Schema("tiny", tuple(attribute(name) for name in "abc"[: draw(st.integers(1, 3))]))


def every_event(schema: Schema) -> Iterator[Event]:
    """All events of a tiny schema."""
    for keys in itertools.product(*(range(*a.domain) for a in schema.attributes)):
        yield Event(schema, keys)


# -- events ----------------------------------------------------------------------------------------------------------


def values(attribute: Attribute) -> SearchStrategy[Any]:
    """A value that events may carry and filters compare with."""
    match attribute:
        case Boolean():
            return st.booleans()
        case Timestamp():
            counted = values(Integer(attribute.name, attribute.optional, attribute.low, attribute.high))
            return counted.map(attribute.value)
        case Integer():
            low, high = attribute.low, attribute.high
            near = {low, low + 1, (low + high) // 2, high - 1, high, 0, 1}
            return st.sampled_from(sorted(v for v in near if low <= v <= high)) | st.integers(low, high)
        case Real():
            low, last = attribute.present.lo, math.nextafter(attribute.present.hi, -math.inf)
            middle = low + (last - low) / 2
            beside = {low, attribute.successor(low), middle, attribute.successor(middle), last, 0.0, 1.0, 0.5}
            return st.sampled_from(sorted(v for v in beside if low <= v <= last)) | st.floats(low, last)
        case Category():
            return st.sampled_from(attribute.values)
        case _:
            return st.sampled_from(TEXTS) | st.text(max_size=8)


@st.composite
def events(draw: DrawFn, schema: Schema) -> Event:
    drawn = {a.name: draw(st.none() | values(a)) if a.optional else draw(values(a)) for a in schema.attributes}
    return schema.event(drawn)


# -- filters ---------------------------------------------------------------------------------------------------------


@st.composite
def conditions(draw: DrawFn, attribute: Attribute) -> tuple[str, Any]:
    """An operator and an operand that `attribute.select` accepts."""
    chosen = draw(st.sampled_from((*attribute.operators, "exists")))
    match chosen:
        case "exists":
            return chosen, draw(st.booleans())
        case "in":
            return chosen, draw(st.lists(values(attribute), min_size=1, max_size=4))
        case "between":
            pair = draw(st.tuples(values(attribute), values(attribute)))
            return chosen, sorted(pair)
        case _:
            return chosen, draw(values(attribute))


@st.composite
def ranges(draw: DrawFn, attribute: Attribute) -> Range:
    """A range of keys as filters have them, the whole domain among them."""
    selected = attribute.select(*draw(conditions(attribute)))
    if draw(st.booleans()):
        selected = complement(selected, attribute.domain)
    return draw(st.sampled_from(selected or (attribute.domain,)))


@st.composite
def filters(draw: DrawFn, schema: Schema, most: int = 4) -> Filter:
    """A union of up to `most` boxes."""

    def box() -> Box:
        return Box(tuple(a.domain if draw(st.booleans()) else draw(ranges(a)) for a in schema.attributes))

    return Filter.of(schema, [box() for _ in range(draw(st.integers(0, most)))])


# -- the filter language ---------------------------------------------------------------------------------------------

Values = Mapping[str, Value]
ATOM, NOT, AND, OR = 3, 2, 1, 0


@dataclass(frozen=True)
class Expression:
    """A text of the filter language, and what it means for the values of an event."""

    text: str
    holds: Callable[[Values], bool]
    binding: int = ATOM

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, listed: any(value == each for each in listed),
    "between": lambda value, ends: ends[0] <= value <= ends[1],
    "startswith": lambda value, prefix: value.startswith(prefix),
}


def satisfies(value: Value, operator: str, operand: Any) -> bool:
    """One comparison, as Python sees it. An absent value satisfies none."""
    return value is not None and COMPARISONS[operator](value, operand)


@st.composite
def literals(draw: DrawFn, value: Any) -> str:
    """One of the ways to write a value."""
    if isinstance(value, str):
        quote = draw(st.sampled_from("'\""))
        escape_all = draw(st.booleans())
        return quote + "".join(_character(c, escape_all or c in "\\" + quote) for c in value) + quote
    if isinstance(value, bool):
        return draw(st.sampled_from(("true", "True", "TRUE") if value else ("false", "False")))
    if isinstance(value, datetime):
        text = value.astimezone(draw(st.sampled_from(ZONES))).isoformat()
        return f'"{text.replace("+00:00", draw(st.sampled_from(("Z", "+00:00"))))}"'
    sign = "+" if value >= 0 and draw(st.booleans()) else ""
    if isinstance(value, int) and abs(value) < 2**53:
        return sign + draw(st.sampled_from((str(value), f"{value}.0", f"{value}e0", f"{value}.")))
    return sign + repr(value)


def _character(c: str, escaped: bool) -> str:
    if not escaped:
        return c
    return f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"


@st.composite
def words(draw: DrawFn, word: str) -> str:
    """A word of the language, in some case and with some space around it."""
    space = st.sampled_from((" ", "  ", "\n", "\t "))
    return draw(space) + draw(st.sampled_from((word, word.upper(), word.title()))) + draw(space)


@st.composite
def comparison_texts(draw: DrawFn, attribute: Attribute) -> Expression:
    name = attribute.name
    chosen, operand = draw(conditions(attribute))
    if chosen == "exists":
        return Expression(draw(words("exists")) + name, lambda event: event.get(name) is not None)
    inverted = chosen in ("in", "between", "startswith") and draw(st.booleans())
    word = (draw(words("not")) if inverted else "") + draw(words(chosen))
    match chosen:
        case "in":
            text = name + word + "(" + " , ".join(draw(literals(v)) for v in operand) + ")"
        case "between":
            text = name + word + draw(literals(operand[0])) + draw(words("and")) + draw(literals(operand[1]))
        case "==":
            text = name + draw(st.sampled_from((" = ", "==", "="))) + draw(literals(operand))
        case _:
            text = name + word + draw(literals(operand))
    return Expression(text, lambda event: satisfies(event.get(name), chosen, operand) != inverted)


@st.composite
def _negations(draw: DrawFn, inner: SearchStrategy[Expression]) -> Expression:
    part = draw(inner)
    return Expression(draw(words("not")) + draw(_within(part, NOT)), lambda event: not part.holds(event), NOT)


@st.composite
def _combinations(draw: DrawFn, inner: SearchStrategy[Expression]) -> Expression:
    parts = draw(st.lists(inner, min_size=2, max_size=3))
    word, binding, every = draw(st.sampled_from((("and", AND, all), ("or", OR, any))))
    text = draw(_within(parts[0], binding))
    for part in parts[1:]:
        text += draw(words(word)) + draw(_within(part, binding))
    return Expression(text, lambda event: every(part.holds(event) for part in parts), binding)


@st.composite
def _within(draw: DrawFn, part: Expression, binding: int) -> str:
    """The text of a part of an expression, in parentheses where it needs them and sometimes where it does not."""
    return f"( {part.text})" if part.binding < binding or draw(st.booleans()) else part.text


def filter_texts(schema: Schema, depth: int = 3) -> SearchStrategy[Expression]:
    compared = st.one_of([comparison_texts(attribute) for attribute in schema.attributes])
    if depth == 0:
        return compared
    constants = st.sampled_from((Expression("true", lambda _: True), Expression(" FALSE", lambda _: False)))
    inner = filter_texts(schema, depth - 1)
    # few constants, which make the rest of an expression pointless
    leaves = st.one_of(compared, compared, compared, constants)
    return st.one_of(leaves, _negations(inner), _negations(inner), _combinations(inner), _combinations(inner))
