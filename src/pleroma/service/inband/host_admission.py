"""Which host asks: the one at the port that a packet came in by, or a new one, where the network learns hosts.

The place decides and the addresses have to agree, so a host that takes another's address gets nowhere with it, and one
whose card the rules of switches do not know hears of that.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address

import structlog

from pleroma.control import Controller, LearnHost
from pleroma.errors import NotAllowed
from pleroma.routing import Host, HostId
from pleroma.routing.presence import Place

log = structlog.get_logger("pleroma.service")


class Joining:
    """`joins` tells whether an unknown host may join at a place; `rewire` is called when one has."""

    def __init__(self, controller: Controller, joins: Callable[[Place], bool], rewire: Callable[[], None]) -> None:
        self._controller = controller
        self._joins = joins
        self._rewire = rewire

    def at(self, place: Place) -> Host | None:
        hosts = self._controller.state.topology.hosts
        return next((host for host in hosts if (host.switch, host.port) == place), None)

    async def host(self, place: Place, address: IPv4Address | IPv6Address, ethernet: str, wanted: str) -> HostId:
        """The host that asks. If it is a new one, it gets the name it wants, or that of its address."""
        switch, port = place
        known = self.at(place)
        if known is None and not self._joins(place):
            reason = f"there is no host at port {port} of {switch}"
            raise NotAllowed(reason, field="host", value=str(address), allowed="the hosts of the topology")
        if known is not None:
            if ip_address(known.address) != address:
                reason = f"port {port} of {switch} belongs to {known.name}, whose address is {known.address}"
                raise NotAllowed(reason, field="address", value=str(address), allowed=known.address)
            if known.ethernet != ethernet:
                reason = f"the card of {known.name} is known as {known.ethernet}: events would not reach this one"
                raise NotAllowed(reason, field="mac", value=ethernet, allowed=known.ethernet)
            return known.name
        name = wanted or str(address)
        await self._controller.submit(LearnHost(name, switch, port, str(address), ethernet))
        log.info("a host joined", host=name, switch=switch, port=port, address=str(address))
        self._rewire()
        return HostId(name)
