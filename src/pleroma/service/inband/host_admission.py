"""Which host asks: the one at the port that a packet came in by, or a new one, where the network learns hosts.

The place decides and the addresses have to agree. A host that uses the address of another is refused, and so is one
whose network card is not the one that the rules of the switches send to.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address

import structlog

from pleroma.control import Controller, LearnHost
from pleroma.errors import NotAllowed
from pleroma.routing import Host, HostId
from pleroma.routing.presence import Place
from pleroma.service.inband.carrier import Peer

log = structlog.get_logger("pleroma.service")


class HostAdmission:
    """`may_join` tells whether an unknown host may join at a place."""

    def __init__(self, controller: Controller, may_join: Callable[[Place], bool]) -> None:
        self._controller = controller
        self._may_join = may_join

    def host_at(self, place: Place) -> Host | None:
        hosts = self._controller.topology.hosts
        return next((host for host in hosts if (host.switch, host.port) == place), None)

    async def admit(self, peer: Peer, wanted_name: str) -> HostId:
        """The host that the peer is. A new host gets the name it wants, or its address as its name."""
        known = self.host_at(peer.place)
        if known is not None:
            _check(known, peer)
            return known.name
        switch, port = peer.place
        address = str(peer.address)
        if not self._may_join(peer.place):
            reason = f"there is no host at port {port} of {switch}"
            raise NotAllowed(reason, field="host", value=address, allowed="the hosts of the topology")
        name = wanted_name or address
        await self._controller.submit(LearnHost(name, switch, port, address, peer.ethernet))
        log.info("a host joined", host=name, switch=switch, port=port, address=address)
        return HostId(name)


def _check(known: Host, peer: Peer) -> None:
    """Raise `NotAllowed` unless the peer has the addresses of the host that is known at its place."""
    if ip_address(known.address) != peer.address:
        switch, port = peer.place
        reason = f"port {port} of {switch} belongs to {known.name}, whose address is {known.address}"
        raise NotAllowed(reason, field="address", value=str(peer.address), allowed=known.address)
    if known.ethernet != peer.ethernet:
        reason = f"the card of {known.name} is known as {known.ethernet}: events would not reach this one"
        raise NotAllowed(reason, field="mac", value=peer.ethernet, allowed=known.ethernet)
