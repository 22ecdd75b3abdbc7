"""The error for an event that goes round in circles. A loop is a mistake in the tables, so it is never just dropped."""

from __future__ import annotations

from collections.abc import Sequence

from pleroma.errors import RoutingError
from pleroma.routing.topology import SwitchId


class ForwardingLoop(RoutingError):
    """`path` names the switches in the order of the visit; at least one of them comes twice."""

    def __init__(self, path: Sequence[SwitchId], dz: object) -> None:
        self.path = tuple(path)
        super().__init__(f"the tables send {dz} in a loop: {' > '.join(path)}", field=path[-1], value=self.path)
