"""Rules as an OpenFlow switch has them: what they match, where they send, and with which destination.

These are pure values that know nothing of bytes. They are canonical: sends that rewrite nothing come first, because a
rewritten field stays rewritten for every later output of an action list. So two rules that do the same compare equal,
whichever way they were written or read back.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, NamedTuple, Self

from pleroma.errors import SwitchError
from pleroma.routing.flow import Change

ETH_TYPE_IPV4 = 0x0800
ETH_TYPE_IPV6 = 0x86DD
ETH_TYPE_LLDP = 0x88CC
IP_PROTO_UDP = 17

MAX_PORT = 0xFFFFFF00
"""The largest number of a real port; larger numbers are reserved."""
CONTROLLER_PORT = 0xFFFFFFFD


class _Match(NamedTuple):
    in_port: int | None = None
    eth_type: int | None = None
    ip_proto: int | None = None
    destination: IPv4Network | IPv6Network | None = None


class Match(_Match):
    """What a rule is for; a field that is None matches everything. A destination says what the Ethernet type is."""

    __slots__ = ()

    def __new__(
        cls,
        in_port: int | None = None,
        eth_type: int | None = None,
        ip_proto: int | None = None,
        destination: IPv4Network | IPv6Network | None = None,
    ) -> Self:
        if destination is not None:
            implied = ETH_TYPE_IPV6 if destination.version == 6 else ETH_TYPE_IPV4
            if eth_type is not None and eth_type != implied:
                raise SwitchError(
                    f"{destination} does not go with Ethernet type 0x{eth_type:04x}", field="eth_type", value=eth_type
                )
            eth_type = implied
            if not destination.prefixlen:
                destination = None
        return super().__new__(cls, in_port, eth_type, ip_proto, destination)

    @classmethod
    def _make(cls, iterable: Iterable[Any]) -> Self:  # type: ignore[override]
        return cls(*iterable)

    def covers(self, other: Match) -> bool:
        """Whether this matches every packet that the other one matches."""
        if any(mine is not None and mine != others for mine, others in zip(self[:3], other[:3], strict=True)):
            return False
        mine, others = self.destination, other.destination
        if mine is None or others is None:
            return mine is None
        rest = mine.max_prefixlen - mine.prefixlen
        within = int(mine.network_address) >> rest == int(others.network_address) >> rest
        return within and mine.prefixlen <= others.prefixlen


class _Send(NamedTuple):
    port: int
    destination: IPv4Address | IPv6Address | None = None
    ethernet: str | None = None


class Send(_Send):
    """Out at a port, to another destination if one is given. `ethernet` is written as in "02:00:00:00:00:01"."""

    __slots__ = ()

    def __new__(
        cls, port: int, destination: IPv4Address | IPv6Address | None = None, ethernet: str | None = None
    ) -> Self:
        return super().__new__(cls, port, destination, ethernet.lower() if ethernet is not None else None)

    @classmethod
    def _make(cls, iterable: Iterable[Any]) -> Self:  # type: ignore[override]
        return cls(*iterable)

    @property
    def rewrites(self) -> bool:
        return self.destination is not None or self.ethernet is not None


Key = tuple[int, int, Match]
"""What identifies a rule on a switch: table, priority and match."""


class _Rule(NamedTuple):
    table: int
    priority: int
    match: Match
    sends: tuple[Send, ...] = ()
    goto: int | None = None
    cookie: int = 0


class Rule(_Rule):
    """An entry of a flow table. One without sends and without a table to go to drops what it matches."""

    __slots__ = ()

    def __new__(
        cls,
        table: int,
        priority: int,
        match: Match,
        sends: tuple[Send, ...] = (),
        goto: int | None = None,
        cookie: int = 0,
    ) -> Self:
        if len(sends) > 1:
            sends = _in_order(sends)
        if goto is not None and sends and sends[-1].rewrites:
            raise SwitchError("a rule that rewrites cannot go to another table: it would see the rewritten packet",
                              field="goto", value=goto)  # fmt: skip
        return super().__new__(cls, table, priority, match, sends, goto, cookie)

    @classmethod
    def _make(cls, iterable: Iterable[Any]) -> Self:  # type: ignore[override]
        return cls(*iterable)

    @property
    def key(self) -> Key:
        return self[:3]


class RuleChange(NamedTuple):
    """One change to the rules of a switch. A deletion carries the rule as it was."""

    change: Change
    rule: Rule

    @property
    def depth(self) -> tuple[int, int]:
        return self.rule.table, self.rule.priority


class CountedRule(NamedTuple):
    """A rule as a switch reports it, with what it has forwarded or dropped so far."""

    rule: Rule
    packets: int
    bytes: int


def _in_order(sends: tuple[Send, ...]) -> tuple[Send, ...]:
    """Sorted so that each output finds its own fields: sends that rewrite more come after those that rewrite less."""
    rewritten = {(send.destination is not None, send.ethernet is not None) for send in sends}
    if (True, False) in rewritten and (False, True) in rewritten:
        raise SwitchError(
            "one send rewrites the destination alone and another the Ethernet destination alone; one list of actions "
            "cannot do both",
            field="sends",
            value=sends,
        )
    return tuple(sorted(sends, key=_order))


def _order(send: Send) -> tuple[int, int, bytes, str]:
    destination, ethernet = send.destination, send.ethernet
    fields = (destination is not None) + (ethernet is not None)
    return fields, send.port, destination.packed if destination is not None else b"", ethernet or ""
