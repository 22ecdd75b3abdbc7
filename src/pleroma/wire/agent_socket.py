"""The Unix sockets of a host agent, and the notice by which it tells a program what it could not hand over.

At the first socket the agent speaks the API, by HTTP. At the second, beside it, it exchanges events: the frames of a
tunnel (`pleroma.wire.tunnel`, `pleroma.wire.attach`) in the messages of a connection of type `SOCK_SEQPACKET`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pleroma.errors import WireError

AGENT_EVENTS_SUFFIX = ".events"
NOTICE_START = b"PLN\1"
MAX_NOTICE_COUNTS = 24
"""Subscriptions in one notice, so that it fits where a packet does."""
_MAX_COUNT = 2**63


def events_path(api_path: str) -> str:
    """Where events are exchanged, by the path of the socket at which the API is spoken."""
    return api_path + AGENT_EVENTS_SUFFIX


@dataclass(frozen=True, slots=True)
class AgentNotice:
    """`overrun` counts from the attachment on; `counts` are new since the last notice: wasted and forged packets, by
    the id of the subscription that they are charged to.
    """

    overrun: int
    counts: Mapping[str, tuple[int, int]] = field(default_factory=lambda: MappingProxyType({}))

    def pack(self) -> bytes:
        return NOTICE_START + json.dumps([self.overrun, self.counts], separators=(",", ":")).encode()

    @classmethod
    def unpack(cls, frame: bytes) -> AgentNotice:
        try:
            overrun, counts = json.loads(frame.removeprefix(NOTICE_START))
            read = {str(name): (_count(wasted), _count(forged)) for name, (wasted, forged) in counts.items()}
            return cls(_count(overrun), read)
        except (ValueError, TypeError, AttributeError, RecursionError):
            raise WireError("cannot be read", field="notice", value=frame) from None


def _count(number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < _MAX_COUNT:
        raise ValueError(number)
    return number
