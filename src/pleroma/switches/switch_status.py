"""The state of a switch, and what was done to keep its rules right: one shape for every kind of network."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

SwitchState = Literal["ready", "reading", "away", "gone"]
"""`ready`: it has its rules; `reading` its table; `away` for a moment; `gone`: nobody waits for it any more."""


@dataclass(slots=True)
class UpkeepCounts:
    """What was done to a switch since the controller started."""

    changed: int = 0
    """Rules that were changed on it."""
    read: int = 0
    """How often its table was read."""
    repaired: int = 0
    """Rules that were not as the switch had confirmed them, and were put right."""
    refusals: int = 0
    """Bundles that it refused."""
    silent: int = 0
    """Bundles that it did not answer in time."""


@dataclass(frozen=True, slots=True)
class SwitchStatus:
    """A switch as its network knows it. A simulated one is always ready, and nothing else is known of it."""

    state: SwitchState = "ready"
    peer: str | None = None
    """Where it is connected from."""
    entries: int | None = None
    """How many rules it is to have in all its tables."""
    refused: tuple[str, ...] = ()
    """Why it did not take rules that it should have."""
    counts: UpkeepCounts = field(default_factory=UpkeepCounts)
