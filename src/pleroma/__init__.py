"""Content-based publish/subscribe whose filtering happens in the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pleroma.client import connect as connect

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`pleroma.connect`, loaded when it is first asked for: a library of sets and filters needs no network."""
    if name == "connect":
        from pleroma.client import connect

        return connect
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
