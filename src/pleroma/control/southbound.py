"""The network as the control plane needs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pleroma.routing import SwitchOp


class Southbound(Protocol):
    """A network that carries out operations. It gets those of one switch in order, one call after the other."""

    async def install(self, ops: Sequence[SwitchOp]) -> None:
        """On return all are in force. After an error they come again, joined with those that came since: of several
        operations on one rule, there is the last. So a rule may be deleted that was never added.
        """
