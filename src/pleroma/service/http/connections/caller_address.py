"""The address that a caller without a token is known by.

Somebody with an IPv6 network has all of its 2**64 addresses, so these count as one.
"""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network

_HOST_BITS = 64


def caller_address(address: str) -> str:
    """An IPv4 address as it is, an IPv6 address as its network of 64 bits."""
    if ":" not in address:
        return address
    try:
        read = IPv6Address(address)
    except ValueError:
        return address
    if read.ipv4_mapped is not None:
        return str(read.ipv4_mapped)
    return str(IPv6Network((int(read) >> _HOST_BITS << _HOST_BITS, 128 - _HOST_BITS)))
