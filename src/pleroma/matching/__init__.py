"""Filtering in software: which of many filters want an event, exactly. One event at a time needs no numpy."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pleroma.matching.edge_filter import EdgeFilter

if TYPE_CHECKING:
    from pleroma.matching.constraint_table import Constraint, ConstraintTable, Occurrences
    from pleroma.matching.engine import Engine
    from pleroma.matching.filter_matcher import FilterMatcher
    from pleroma.matching.group_matches import wanted_by
    from pleroma.matching.matcher import Matcher

__all__ = [
    "Constraint",
    "ConstraintTable",
    "EdgeFilter",
    "Engine",
    "FilterMatcher",
    "Matcher",
    "Occurrences",
    "wanted_by",
]

_WITH_ARRAYS = {
    "Constraint": "constraint_table",
    "Engine": "engine",
    "FilterMatcher": "filter_matcher",
    "Matcher": "matcher",
    "Occurrences": "constraint_table",
    "ConstraintTable": "constraint_table",
    "wanted_by": "group_matches",
}


def __getattr__(name: str) -> Any:
    """What works on arrays brings numpy, which a subscriber does not have."""
    if name in _WITH_ARRAYS:
        return getattr(import_module(f"pleroma.matching.{_WITH_ARRAYS[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
