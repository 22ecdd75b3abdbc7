"""The limits of what strangers can make an in-band server do or keep."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InbandLimits:
    datagrams_per_s: float = 1000.0
    """Datagrams read from one place, on average; as many may come at once after a quiet second."""
    address_datagrams_per_s: float = 10_000.0
    """Datagrams read from one address, at whatever ports."""
    refusals_per_s: float = 5.0
    """Refusals sent to one place."""
    max_sessions: int = 1024
    max_sessions_of_a_principal: int = 512
    max_sessions_at_an_address: int = 512
    max_sessions_at_a_place: int = 16
    idle_seconds: float = 300.0
    """A session that nobody used for so long is forgotten when another one begins."""
    in_use_seconds: float = 30.0
    """A session that was used so lately does not make room for a principal that has as many."""
    max_bytes: int = 64 * 2**20
    """Bytes of requests and answers, of all sessions together."""
    max_principal_bytes: int = 16 * 2**20
    max_session_bytes: int = 8 * 2**20
    max_request_parts: int = 1024
    max_running: int = 64
    """Requests of all sessions that are carried out at a time."""
    max_running_of_a_principal: int = 16
    answer_seconds: float = 60.0
