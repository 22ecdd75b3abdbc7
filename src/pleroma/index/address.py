"""A dz as a multicast address prefix, which is how an ordinary switch comes to filter content.

Bhowmik et al. 2017, III-A.

The bits of the dz follow the fixed bits of a reserved range. A rule matches the prefix; an event carries an address of
full length. Any multicast range will do as a base; a longer one leaves fewer bits.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from pleroma.errors import AddressError, DzError
from pleroma.index.dz import Dz

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class AddressRange:
    """The block of multicast addresses that events travel under."""

    base: Network

    @classmethod
    def parse(cls, text: str) -> AddressRange:
        try:
            base = ipaddress.ip_network(text)
        except ValueError as error:
            raise AddressError(f"{text!r} is not an address range: {error}", field="base", value=text) from None
        if not base.is_multicast:
            raise AddressError(f"{text} is not a multicast range", field="base", value=text)
        return cls(base)

    @property
    def bits(self) -> int:
        """How long a dz can be here."""
        return self.base.max_prefixlen - self.base.prefixlen

    def prefix(self, dz: Dz) -> Network:
        """What a rule for `dz` matches."""
        return type(self.base)((self._place(dz), self.base.prefixlen + dz.length))

    def address(self, dz: Dz) -> Address:
        """Where an event of this dz is sent."""
        return type(self.base.network_address)(self._place(dz))

    def _place(self, dz: Dz) -> int:
        if dz.length > self.bits:
            raise DzError(f"{dz} has {dz.length} bits, {self.base} has room for {self.bits}", field="dz", value=str(dz))
        return int(self.base.network_address) | (dz ^ 1 << dz.length) << self.bits - dz.length

    def dz(self, place: Network | Address | str, length: int | None = None) -> Dz:
        """The dz that a prefix or an address stands for; an address needs the length to read, by default all bits."""
        if isinstance(place, str):
            try:
                place = ipaddress.ip_network(place) if "/" in place else ipaddress.ip_address(place)
            except ValueError as error:
                raise AddressError(str(error), field="address", value=place) from None
        if isinstance(place, (ipaddress.IPv4Network, ipaddress.IPv6Network)):
            first, length = place.network_address, place.prefixlen - self.base.prefixlen
        else:
            first, length = place, self.bits if length is None else length
        if first not in self.base or not 0 <= length <= self.bits:
            raise AddressError(f"{place} is outside {self.base}", field="address", value=str(place))
        bits = int(first) - int(self.base.network_address)
        return Dz(1 << length | bits >> self.bits - length)


IPV6 = AddressRange.parse("ff0e::/16")
IPV4 = AddressRange.parse("225.128.0.0/9")
