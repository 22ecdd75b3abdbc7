"""What a controller needs to lead the processes that share a log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict

from pleroma.control import Log
from pleroma.control.state.command import Lead


class SharedOptions(TypedDict):
    shared: Log | None
    lead: Lead | None


@dataclass(frozen=True, slots=True)
class SharedLead:
    """The log, what it is told of the process that leads, and the generation by which switches know a stale leader."""

    log: Log
    lead: Lead
    generation: int
    on_deposed: Callable[[], None]
    """To be called when a switch says that another process leads."""

    @staticmethod
    def options(shared: SharedLead | None) -> SharedOptions:
        """For `Controller.open`: nothing is shared if there is no such log."""
        if shared is None:
            return SharedOptions(shared=None, lead=None)
        return SharedOptions(shared=shared.log, lead=shared.lead)
