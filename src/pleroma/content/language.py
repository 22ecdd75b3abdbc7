"""The filter language: text to boxes.

Negation is pushed down to the conditions, where it is the complement of a few ranges of one attribute; everything
above is union and intersection of boxes. Each error points at the place in the text.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from pleroma.content.filter import Box, Filter
from pleroma.content.range import Ranges, complement
from pleroma.content.schema import Schema
from pleroma.errors import ContentError, FilterSyntax

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
            union = (node.data == "any_of") != negated
            result = _evaluate(schema, parts[0], negated)
            for part in parts[1:]:
                other = _evaluate(schema, part, negated)
                result = result | other if union else result & other
            return result
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
    operator, operand = _operation(node.data, tokens, [_literal(v) for v in values])
    attribute = schema.attributes[position]
    try:
        ranges: Ranges = attribute.select(operator, operand)
    except ContentError as error:
        raise error.at(_place(values[0] if values else name)) from None
    if negated:
        ranges = complement(ranges, attribute.domain)
    full = tuple(a.domain for a in schema.attributes)
    return Filter.of(schema, (Box((*full[:position], part, *full[position + 1 :])) for part in ranges))


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
        except ValueError:
            raise FilterSyntax(f"{text} has an escape that is no character", value=text).at(_place(token)) from None
    if token.type == "WORD_NUMBER" or any(c in text for c in ".eE"):
        return float(text)
    return int(text)


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
            where, found = _place(error.token), repr(str(error.token))
            wanted = error.accepts or error.expected
        case UnexpectedCharacters():
            where, found, wanted = error.pos_in_stream + 1, repr(text[error.pos_in_stream]), error.allowed or set()
        case UnexpectedEOF():
            where, found, wanted = len(text) + 1, "the end", set(error.expected)
        case _:
            where, found, wanted = 1, "this", set()
    words = sorted({_EXPECTED.get(w, w.strip("_").lower()) for w in wanted})
    expected = f"; expected {', '.join(words)}" if words else ""
    syntax = FilterSyntax(f"unexpected {found}{expected}", value=text)
    syntax.at(where)
    return syntax
