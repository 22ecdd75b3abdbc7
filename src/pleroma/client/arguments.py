"""Checks of what applications pass to the client: a wrong type is one clear error, before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable

from pleroma.content import Filter, Schema
from pleroma.errors import ContentError, shown


def check_text(name: str, value: object) -> None:
    """The value stays out of the error: it may be a token."""
    if not isinstance(value, str):
        raise ContentError(f"is a text, not {type(value).__name__}", field=name)


def check_texts(**values: object) -> None:
    """Texts that may be left out, by the names of the arguments."""
    for name, value in values.items():
        if value is not None:
            check_text(name, value)


def check_seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise ContentError(f"is a number of seconds from 0, not {shown(value)}", field=name, value=value)


def check_schema_name(value: object) -> None:
    if not isinstance(value, str):
        raise ContentError(f"is the name of a schema, not {shown(value)}", field="schema", value=value)


def check_schema(value: object) -> None:
    if not isinstance(value, Schema):
        raise ContentError(f"is a Schema, not {shown(value)}", field="schema", value=value)


def check_callable(name: str, value: object) -> None:
    if value is not None and not callable(value):
        raise ContentError(f"is a function of an event, not {shown(value)}", field=name, value=value)


def check_filters(value: object) -> list[str | Filter]:
    """Filters, one after the other; a single text is no list of them. What each of them is, is looked at later."""
    if isinstance(value, str | Filter) or not isinstance(value, Iterable):
        raise ContentError(f"are several texts or Filters, not {shown(value)}", field="filters", value=value)
    return list(value)
