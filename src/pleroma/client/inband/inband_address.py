"""`inband://`: the controller's API for a program on a host that has no network but the switches' own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import parse_qsl, urlsplit

from pleroma.client.inband.conversation import Pipe
from pleroma.client.inband.multicast_pipes import open_multicast_pipes
from pleroma.client.inband.transport import InbandTransport
from pleroma.errors import ClientError, UnknownName
from pleroma.wire.ports import CONTROL_ADDRESSES

INBAND_SCHEME = "inband"
_OPTIONS = ("host", "interface")


@dataclass(frozen=True, slots=True)
class InbandAddress:
    """What an `inband://` address says: the controller's addresses, the interface, and the name to have as a host."""

    addresses: tuple[IPv4Address | IPv6Address, ...]
    interface: str | None = None
    host: str = ""

    @classmethod
    def parse(cls, url: str) -> InbandAddress:
        """`inband://`, or with an address, as in `inband://[ff05::706c]?host=kiosk&interface=eth0`."""
        try:
            split = urlsplit(url)
            named = split.hostname
            options = dict(parse_qsl(split.query, strict_parsing=True)) if split.query else {}
            addresses = tuple(CONTROL_ADDRESSES.values()) if not named else (ip_address(named),)
            if split.scheme != INBAND_SCHEME or split.port is not None or split.path not in ("", "/") or split.username:
                raise ValueError("expected inband:// or inband://ADDRESS")
        except ValueError as error:
            raise ClientError(f"{url!r} is no address of a controller: {error}", field="url", value=url) from None
        for name in options:
            if name not in _OPTIONS:
                raise UnknownName("option", name, _OPTIONS, field="url")
        if not all(each.is_multicast for each in addresses):
            raise ClientError(f"{named} is not a multicast address", field="url", value=url)
        return cls(addresses[::-1], options.get("interface"), options.get("host", ""))

    def transport(self, principal: str | None, token: str | None, wanted_host: str) -> InbandTransport:
        """`wanted_host` is the name to have as a host, if the address does not say one."""
        return InbandTransport(self._open_pipes, principal, token, self.host or wanted_host)

    def _open_pipes(self, on_datagram: Callable[[Pipe, bytes], None]) -> Sequence[Pipe]:
        return open_multicast_pipes(self.addresses, self.interface, on_datagram)
