"""The network as the API needs it: simulated switches, OpenFlow switches, or a broker (`service.planes`).

They carry the same packets for the same registrations. They differ in how a program joins, in what they can count, and
in whether parts of them may be away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from fastapi import FastAPI
from prometheus_client.core import Metric

from pleroma.index.address import AddressRange
from pleroma.index.dz import Dz
from pleroma.routing import Host, HostId, Port, Presence, SwitchId, Topology
from pleroma.switches.switch_status import SwitchStatus
from pleroma.switches.tracing.meeting import SwitchRules, SwitchStanding


class DataPlane(Protocol):
    kind: str
    addresses: AddressRange
    count_lag_seconds: float
    """So long after an event came in `published` counts it, at the latest."""
    counts_by_principal: bool
    """Whether `published` counts the events of the principal alone, and not all that came in at the host."""
    forwards_by_rules: bool
    """Whether rules of switches lead the events; a broker has none."""
    base_priority: int
    """The priority of a rule on a switch is this and the length of its dz."""

    @property
    def learns(self) -> bool:
        """Whether hosts may join that no topology describes."""

    def serving(self, app: FastAPI) -> AbstractAsyncContextManager[None]:
        """While it is entered, requests that come through the network itself are answered by the application."""

    def forged(self) -> Mapping[tuple[HostId, str], int]:
        """Events under the number of somebody else's advertisement that were dropped where they came in.

        By host and principal, where the network can tell.
        """

    def topology(self) -> Topology:
        """The whole known network, whether or not its parts are there now."""

    def rooms(self) -> Mapping[SwitchId, int]:
        """How many rules switches turned out to have room for, where that is known."""

    def attach(
        self, host: Host, seconds: float, principal: str, lease: str | None, token: str, on_end: Callable[[], None]
    ) -> dict[str, Any]:
        """Let a program join at a host; returns what it needs to know for that.

        `lease` is what it registers under, and `token` the digest of the token that it showed. `on_end` is called when
        the network has forgotten the program.
        """

    def dismiss(self, is_worthless: Callable[[str], bool]) -> None:
        """Forget the programs and the in-band sessions whose tokens, by their digests, are worth nothing any more."""

    def attached(self) -> Mapping[HostId, int]:
        """How many programs are at each host, as far as the network knows."""

    def standing(self, switch: SwitchId, in_port: Port, event: Dz) -> SwitchStanding:
        """What a switch has confirmed so far, for an event (a dz of full length) that comes in at a port."""

    async def read_rules(self, switch: SwitchId, seconds: float) -> SwitchRules | None:
        """The rules that a switch has now, read from it; None if it does not answer in so many seconds."""

    async def count_packets(self, switch: SwitchId, seconds: float) -> Mapping[Dz, int] | None:
        """How many packets have followed each rule of a switch that forwards, by the switch's own count.

        None if the switch counts none, or does not answer in so many seconds.
        """

    def hosts(self) -> Mapping[str, dict[str, int]]:
        """The counters of the hosts' ports."""

    def published(self, host: HostId, principal: str) -> int | None:
        """How many events the network has let in at a host's port; None if it does not count them."""

    def switches(self) -> Mapping[SwitchId, SwitchStatus]:
        """The state of each switch, and what else is known of it beyond its rules."""

    def presence(self) -> Presence:
        """Which switches and ports of the known network are away now."""

    def on_change(self, listener: Callable[[], object]) -> None:
        """Have the listener called soon after switches, links or ports have come or gone."""

    def failure_above(self) -> str | None:
        """Why the network that this one is joined to cannot be reached, while that is so."""

    def brokers(self) -> list[str]:
        """The names of this broker and of those above it; none where the network is no broker."""

    def condition(self) -> dict[str, Any]:
        """Further fields of the answer that describes the network as a whole."""

    def metrics(self) -> Iterator[Metric]: ...
