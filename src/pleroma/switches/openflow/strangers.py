"""The switches that were turned away, and why: an operator who misses a switch looks here first."""

from __future__ import annotations

from typing import Final

import structlog

from pleroma.errors import SwitchError
from pleroma.switches.openflow.connection import Connection

MAX_STRANGERS: Final = 100

log = structlog.get_logger("pleroma.openflow")


class Strangers:
    """Only the last ones, since anybody can come under any number."""

    def __init__(self) -> None:
        self.by_datapath: dict[int, str] = {}
        """The peer's address, and the reason."""

    def turned_away(self, connection: Connection, reason: str) -> SwitchError:
        """Remember a switch that is not taken. Returns the error to raise."""
        number = connection.datapath
        self.by_datapath.pop(number, None)
        self.by_datapath[number] = f"{connection.peer}: {reason}"
        while len(self.by_datapath) > MAX_STRANGERS:
            del self.by_datapath[next(iter(self.by_datapath))]
        log.warning("a switch was turned away", datapath=f"{number:x}", peer=connection.peer, reason=reason)
        return SwitchError(reason, field="switch", value=number)
