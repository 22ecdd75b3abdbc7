"""The filter language: text to boxes.

Negation is pushed down to the conditions, where it is the complement of a few ranges of one attribute; everything
above is union and intersection of boxes. Conditions that are and-ed are met as ranges, attribute by attribute, before
there are boxes. Each error points at the place in the text.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import islice, product
from typing import Any

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from pleroma.content.box import Box
from pleroma.content.filter import Filter, met
from pleroma.content.normal_form import normal
from pleroma.content.range import Range, Ranges, common, complement
from pleroma.content.schema import Schema
from pleroma.content.slabs import outside
from pleroma.content.work_budget import UNBOUNDED, WorkBudget
from pleroma.errors import ContentError, FilterSyntax, shown

MAX_TEXT = 65_536
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_CONTROL = {"n": "\n", "r": "\r", "t": "\t"}
_EXPECTED = {
    "NAME": "an attribute",
    "COMPARE": "a comparison",
    "NUMBER": "a value",
    "STRING": "a value",
    "WORD_NUMBER": "a value",
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "$END": "the end",
}


@cache
def _parser() -> Lark:
    grammar = files("pleroma.content").joinpath("filter.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", maybe_placeholders=False)


def parse(schema: Schema, text: str, work: WorkBudget = UNBOUNDED) -> Filter:
    if not isinstance(text, str):
        raise FilterSyntax(f"a filter is a text, not {type(text).__name__}", value=text)
    if len(text) > MAX_TEXT:
        raise FilterSyntax(f"the filter has {len(text)} characters, at most {MAX_TEXT} are allowed")
    try:
        tree = _parser().parse(text)
        return _Evaluation(schema, work).of(tree.children[0], negated=False)
    except UnexpectedInput as error:
        raise _syntax_error(text, error) from None
    except RecursionError:
        raise FilterSyntax("the filter is nested too deeply") from None


class _Evaluation:
    """Turns a parsed text into a filter."""

    def __init__(self, schema: Schema, work: WorkBudget) -> None:
        self._schema = schema
        self._work = work

    def of(self, node: Any, negated: bool) -> Filter:
        schema = self._schema
        match node.data:
            case "negate":
                return self.of(node.children[1], not negated)
            case "any_of" | "all_of":
                if (node.data == "all_of") != negated:
                    return Filter(schema, self._all_of(node.children, negated))
                filters = [self.of(part, negated) for part in node.children]
                return Filter.of(schema, (box for each in filters for box in each.boxes), self._work)
            case "true" | "false":
                wanted = (node.data == "true") != negated
                return Filter.everything(schema) if wanted else Filter.nothing(schema)
            case _:
                return Filter.where(schema, *_condition(schema, node, negated), self._work)

    def _all_of(self, parts: Iterable[Any], negated: bool) -> tuple[Box, ...]:
        """The boxes of all these parts together. They are brought to normal form when they have become many."""
        terms = [_without_not(part, negated) for part in parts]
        boxes: Sequence[Box] = Filter.everything(self._schema).boxes
        left_out = [node for node, is_negated in terms if is_negated and node.data == "all_of"]
        if len(left_out) > _LEFT_OUT_ONE_BY_ONE and (rest := self._outside(left_out)) is not None:
            boxes = rest
            terms = [(node, is_negated) for node, is_negated in terms if not is_negated or node.data != "all_of"]
        many = len(boxes)
        conditions: dict[int, list[Ranges]] = defaultdict(list)
        for node, is_negated in terms:
            if node.data not in _COMPOSED:
                position, ranges = _condition(self._schema, node, is_negated)
                conditions[position].append(ranges)
                continue
            others = self.of(node, is_negated).boxes
            boxes = self._within(boxes, conditions)
            conditions.clear()
            if len(boxes) > many or len(boxes) * len(others) > self._work.max_pieces:
                boxes = normal(boxes, self._work)
                many = 2 * len(boxes)
            boxes = self._some(met(boxes, others, self._work))
        return normal(self._within(boxes, conditions), self._work)

    def _outside(self, nodes: Iterable[Any]) -> list[Box] | None:
        """What is in none of these parts, if that can be said in as many boxes as are allowed."""
        boxes = self._some(box for node in nodes for box in self.of(node, negated=False).boxes)
        return outside(boxes, Filter.everything(self._schema).boxes[0], self._work, self._work.max_boxes)

    def _within(self, boxes: Sequence[Box], conditions: Mapping[int, Sequence[Ranges]]) -> Sequence[Box]:
        """The parts of the boxes in which all conditions hold."""
        if not conditions:
            return boxes
        chosen = {d: common(each, self._schema.attributes[d].domain) for d, each in conditions.items()}
        self._work.spend(len(boxes) * sum(map(len, chosen.values())))
        return self._some(part for box in boxes for part in _parts(box, chosen))

    def _some(self, pieces: Iterator[Box]) -> list[Box]:
        some = list(islice(pieces, self._work.max_pieces + 1))
        if len(some) > self._work.max_pieces:
            raise self._work.too_large()
        return some


_LEFT_OUT_ONE_BY_ONE = 8
"""More boxes that are left out are left out all at once."""
_COMPOSED = ("any_of", "all_of", "true", "false")


def _without_not(node: Any, negated: bool) -> tuple[Any, bool]:
    while node.data == "negate":
        node, negated = node.children[1], not negated
    return node, negated


def _parts(box: Box, chosen: Mapping[int, Ranges]) -> Iterator[Box]:
    """The parts of a box that have, in some dimensions, a key in one of the chosen ranges."""
    along: list[Iterable[Range]] = [(part,) for part in box.ranges]
    for d, ranges in chosen.items():
        along[d] = [both for part in ranges if (both := part.meet(box.ranges[d])) is not None]
    return map(Box, product(*along))


def _condition(schema: Schema, node: Tree[Token], negated: bool) -> tuple[int, Ranges]:
    """The position of the attribute that a condition is on, and the keys for which it holds."""
    tokens = [part for part in node.children if isinstance(part, Token)]
    values = [part.children[0] for part in node.children if isinstance(part, Tree)]
    name = next(t for t in tokens if t.type == "NAME")
    negated ^= any(t.type == "NOT" for t in tokens)
    try:
        position = schema.position(str(name))
    except ContentError as error:
        raise error.at(_place(name)) from None
    literals = [_literal(v) for v in values]
    operator, operand = _operation(node.data, tokens, literals)
    attribute = schema.attributes[position]
    try:
        ranges: Ranges = attribute.select(operator, operand)
    except ContentError as error:
        culprit = next((i for i, each in enumerate(literals) if _same(each, error.value)), 0)
        raise error.at(_place(values[culprit] if values else name)) from None
    return position, complement(ranges, attribute.domain) if negated else ranges


def _operation(kind: str, tokens: list[Token], values: list[Any]) -> tuple[str, Any]:
    match kind:
        case "compare":
            symbol = next(str(t) for t in tokens if t.type == "COMPARE")
            return ("==" if symbol == "=" else symbol), values[0]
        case "between":
            return "between", values
        case "member":
            return "in", values
        case "startswith":
            return "startswith", values[0]
        case _:
            return "exists", True


def _same(value: Any, other: Any) -> bool:
    """Whether two values are one, as a NaN is, or equal; `1` and `true` are not."""
    return value is other or (isinstance(value, bool) == isinstance(other, bool) and value == other)


def _literal(token: Any) -> Any:
    text = str(token)
    if token.type in ("TRUE", "FALSE"):
        return token.type == "TRUE"
    if token.type == "STRING":
        try:
            return _ESCAPED.sub(_unescape, text[1:-1])
        except (ValueError, OverflowError):
            reason = f"{shown(text)} has an escape that is no character"
            raise FilterSyntax(reason, value=text).at(_place(token)) from None
    if token.type == "WORD_NUMBER" or any(c in text for c in ".eE"):
        return float(text)
    try:
        return int(text)
    except ValueError:
        raise FilterSyntax(f"{shown(text)} has too many digits", value=text).at(_place(token)) from None


def _unescape(match: re.Match[str]) -> str:
    body = match.group(1)
    if len(body) > 1:
        return chr(int(body[1:], 16))
    return _CONTROL.get(body, body)


def _place(token: Any) -> int:
    return int(token.start_pos) + 1


def _syntax_error(text: str, error: UnexpectedInput) -> FilterSyntax:
    match error:
        case UnexpectedToken() if error.token.type == "$END":
            where, found = len(text) + 1, "the end"
            wanted = error.accepts or error.expected
        case UnexpectedToken():
            where, found = _place(error.token), shown(str(error.token))
            wanted = error.accepts or error.expected
        case UnexpectedCharacters():
            place = error.pos_in_stream or 0
            where, found, wanted = place + 1, repr(text[place]), error.allowed or set()
        case UnexpectedEOF():
            where, found, wanted = len(text) + 1, "the end", set(error.expected)
        case _:
            where, found, wanted = 1, "this", set()
    words = {_EXPECTED.get(w, w.strip("_").lower()) for w in wanted}
    if "a value" in words:
        words -= {"true", "false"}
    expected = f"; expected {', '.join(sorted(words))}" if words else ""
    syntax = FilterSyntax(f"unexpected {found}{expected}", value=text)
    syntax.at(where)
    return syntax
