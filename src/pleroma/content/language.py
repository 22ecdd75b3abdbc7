"""The filter language: text to boxes.

Negation is pushed down to the conditions, where it is the complement of a few ranges of one attribute; everything
above is union and intersection of boxes. Each error points at the place in the text.
"""

from __future__ import annotations

import re
from functools import cache, reduce
from importlib.resources import files
from operator import and_
from typing import Any

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from pleroma.content.filter import Filter
from pleroma.content.range import Ranges, complement
from pleroma.content.schema import Schema
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


def parse(schema: Schema, text: str) -> Filter:
    if not isinstance(text, str):
        raise FilterSyntax(f"a filter is a text, not {type(text).__name__}", value=text)
    if len(text) > MAX_TEXT:
        raise FilterSyntax(f"the filter has {len(text)} characters, at most {MAX_TEXT} are allowed")
    try:
        tree = _parser().parse(text)
        return _evaluate(schema, tree.children[0], negated=False)
    except UnexpectedInput as error:
        raise _syntax_error(text, error) from None
    except RecursionError:
        raise FilterSyntax("the filter is nested too deeply") from None


def _evaluate(schema: Schema, node: Any, negated: bool) -> Filter:
    parts = node.children
    match node.data:
        case "negate":
            return _evaluate(schema, parts[1], not negated)
        case "any_of" | "all_of":
            filters = [_evaluate(schema, part, negated) for part in parts]
            if (node.data == "any_of") != negated:
                return Filter.of(schema, (box for each in filters for box in each.boxes))
            return reduce(and_, filters)
        case "true" | "false":
            wanted = (node.data == "true") != negated
            return Filter.everything(schema) if wanted else Filter.nothing(schema)
        case _:
            return _condition(schema, node, negated)


def _condition(schema: Schema, node: Tree[Token], negated: bool) -> Filter:
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
        culprit = literals.index(error.value) if error.value in literals else 0
        raise error.at(_place(values[culprit] if values else name)) from None
    return Filter.where(schema, position, complement(ranges, attribute.domain) if negated else ranges)


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


def _literal(token: Any) -> Any:
    text = str(token)
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
    words = sorted({_EXPECTED.get(w, w.strip("_").lower()) for w in wanted})
    expected = f"; expected {', '.join(words)}" if words else ""
    syntax = FilterSyntax(f"unexpected {found}{expected}", value=text)
    syntax.at(where)
    return syntax
