"""Where packets go on a real network: the UDP ports, and the address that stands for the controller."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address
from types import MappingProxyType

EVENTS_PORT = 17470
"""Events are sent to this port, and each host receives them at it."""
CONTROL_PORT = 17471
"""Requests to the controller, where a host has no other network to reach it by."""
CONTROL_ADDRESSES: Mapping[int, IPv4Address | IPv6Address] = MappingProxyType(
    {4: IPv4Address("239.255.112.108"), 6: IPv6Address("ff05::706c")}
)
"""By the version of IP. Switches pass packets to these addresses up (IP_fix of Bhowmik et al. 2017, II)."""
