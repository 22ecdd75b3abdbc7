"""What is wrong with a network at a moment, and what has changed from one moment to another, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from pleroma.routing import Presence, Topology

MAX_LISTED_CHANGES = 100
"""So many changes are listed in an item of the stream; their number is always told."""
MAX_LISTED_NAMES = 5
"""So many names stand in one line for people."""

_STATES = {
    "gone": ("switch", "gone", "returned"),
    "cut": ("link", "cut", "mended"),
    "unreachable": ("host", "unreachable", "reachable"),
    "full": ("table", "full", "fitting"),
}
"""By field of a condition: what its names are names of, and the states of what comes to be in it and leaves it."""


class NetworkChange(NamedTuple):
    """`name` is now in `state`. It is for the worse if that is a state in which nothing should be."""

    what: str
    name: str
    state: str
    is_worse: bool


@dataclass(frozen=True, slots=True)
class NetworkCondition:
    """The names of all that is not as it should be."""

    gone: tuple[str, ...] = ()
    """Switches that nobody waits for any more."""
    cut: tuple[str, ...] = ()
    """Links that carry nothing; among them those of switches that are gone."""
    unreachable: tuple[str, ...] = ()
    """Hosts that are away, or cut off from most others."""
    full: tuple[str, ...] = ()
    """Switches whose tables have coarser rules, for want of room."""

    @classmethod
    def of(cls, known: Topology, presence: Presence, full: Sequence[str] = ()) -> NetworkCondition:
        return cls(
            tuple(name for name in known.switches if name in presence.absent),
            tuple(str(link) for link in known.links if not presence.carries(link)),
            tuple(presence.unreachable(known)),
            tuple(full),
        )

    def changes_since(self, before: NetworkCondition) -> list[NetworkChange]:
        """What has come to be wrong, and what is right again."""
        changes: list[NetworkChange] = []
        earlier = asdict(before)
        for field, names in asdict(self).items():
            what, wrong, right = _STATES[field]
            was, now = frozenset(earlier[field]), frozenset(names)
            changes += [NetworkChange(what, name, wrong, True) for name in names if name not in was]
            changes += [NetworkChange(what, name, right, False) for name in earlier[field] if name not in now]
        return changes


def network_item(changes: Sequence[NetworkChange]) -> dict[str, Any]:
    """An item of the stream about what changed in one moment."""
    listed = [{"what": each.what, "name": each.name, "state": each.state} for each in changes[:MAX_LISTED_CHANGES]]
    return {"type": "network", "count": len(changes), "changes": listed}


def names_by_state(changes: Sequence[NetworkChange]) -> dict[str, str]:
    """The names that came into each state, as one line of the log has them."""
    found: dict[str, list[str]] = {}
    for each in changes:
        found.setdefault(each.state, []).append(each.name)
    return {state: named(names) for state, names in found.items()}


def named(names: Sequence[str]) -> str:
    """Names in one line; of many, the first."""
    more = len(names) - MAX_LISTED_NAMES
    return ", ".join(names[:MAX_LISTED_NAMES]) + (f" and {more} more" if more > 0 else "")
