"""The limits and times of the service that an operator may set; the defaults are safe on one machine."""

from __future__ import annotations

from dataclasses import dataclass, fields

from pleroma.errors import SetupError


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Limits of what callers may ask and have; all are positive."""

    max_body_bytes: int = 2**20
    requests_per_s: float = 2000.0
    """Requests of one principal, on average; as many may come at once after a quiet second."""
    anonymous_per_s: float = 200.0
    """Requests without a valid token from one address, so that guessing tokens is slow."""
    max_subscriptions: int = 10_000
    """Subscriptions that a principal may have at a time, unless the request that made it says otherwise."""
    max_boxes: int = 100_000
    """Boxes that the filters of all registrations of a principal may have, unless it was made with another number."""
    max_attachments: int = 40_000
    """Attachments of all programs together. A principal has at most half of what others leave."""
    attachment_seconds: float = 30.0
    lease_seconds: float = 30.0
    """What was registered under a lease is withdrawn when nobody renewed the lease for so long."""
    heartbeat_seconds: float = 10.0
    max_streams: int = 2000
    """Open streams of all principals together. A principal has at most half of what others leave."""
    max_connections: int = 8192
    """Slots for HTTP connections (`http/connections/connection_table.py`); fewer where there are few descriptors."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise SetupError(f"must be a positive number, not {value!r}", field=each.name, value=value)
