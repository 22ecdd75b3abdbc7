"""Filtering in software: which of many filters want an event, exactly. One event at a time needs no numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pleroma.matching.edge import EdgeFilter

if TYPE_CHECKING:
    from pleroma.matching.brute import wanted_by

__all__ = ["EdgeFilter", "wanted_by"]


def __getattr__(name: str) -> Any:
    """`wanted_by` works on arrays and brings numpy, which a subscriber does not have."""
    if name == "wanted_by":
        from pleroma.matching.brute import wanted_by

        return wanted_by
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
