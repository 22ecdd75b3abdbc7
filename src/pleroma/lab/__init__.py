"""Networks of real parts on one machine: a topology as Open vSwitch bridges, veth cables and network namespaces.

One call brings a lab up, another takes it down, also when the process that made it was killed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pleroma.lab.daemons import Tls
from pleroma.lab.namespaces import enter
from pleroma.lab.needs import missing
from pleroma.lab.registry import LabRecord, records, remove, remove_stale

if TYPE_CHECKING:
    from pleroma.lab.lab import Lab

__all__ = ["Lab", "LabRecord", "Tls", "enter", "missing", "records", "remove", "remove_stale"]


def __getattr__(name: str) -> Any:
    """`Lab` takes a topology and so brings all of routing; running a command at a host should not wait for that."""
    if name == "Lab":
        from pleroma.lab.lab import Lab

        return Lab
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
