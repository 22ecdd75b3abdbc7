"""How a controller re-plans by itself: the watcher's settings, for short windows and the first hour."""

from __future__ import annotations

from dataclasses import dataclass, field

from pleroma.replanning.decisions import WatchSettings


def _for_the_first_hour() -> WatchSettings:
    return WatchSettings(window=5.0, lateness=0.0, cool_down=5.0, period=600.0, least=200, newcomers=0.1, floor=0.002)


@dataclass(frozen=True, slots=True)
class ReplanningSettings:
    """`looking.window` is the time between two looks, `looking.cool_down` the pause between two searches."""

    looking: WatchSettings = field(default_factory=_for_the_first_hour)
    max_search_seconds: float = 300.0
    """The planning process is stopped if a search takes longer."""
