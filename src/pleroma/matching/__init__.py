"""Filtering in software: which of many filters want an event, exactly. One event at a time needs no numpy."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pleroma.matching.edge import EdgeFilter

if TYPE_CHECKING:
    from pleroma.matching.engine import Engine
    from pleroma.matching.filters import FilterMatcher
    from pleroma.matching.matcher import Matcher
    from pleroma.matching.table import Constraint, Occurrences, Table
    from pleroma.matching.wishes import wanted_by

__all__ = ["Constraint", "EdgeFilter", "Engine", "FilterMatcher", "Matcher", "Occurrences", "Table", "wanted_by"]

_WITH_ARRAYS = {
    "Constraint": "table",
    "Engine": "engine",
    "FilterMatcher": "filters",
    "Matcher": "matcher",
    "Occurrences": "table",
    "Table": "table",
    "wanted_by": "wishes",
}


def __getattr__(name: str) -> Any:
    """What works on arrays brings numpy, which a subscriber does not have."""
    if name in _WITH_ARRAYS:
        return getattr(import_module(f"pleroma.matching.{_WITH_ARRAYS[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
