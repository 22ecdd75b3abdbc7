"""Instants at which tokens end: as RFC 3339 in requests and answers, in seconds since 1970 in the state."""

from __future__ import annotations

from datetime import UTC, datetime

from pleroma.errors import BadRequest
from pleroma.service.http.models.principals import TokenLife


def ends_at(life: TokenLife, now: float) -> float | None:
    """The instant at which a token shall end; None for never."""
    if life.expires_at is None:
        return None if life.expires_in is None else now + life.expires_in
    if life.expires_in is not None:
        raise BadRequest("say either when or after how long", field="expires_at", value=life.expires_at)
    try:
        given = datetime.fromisoformat(life.expires_at)
    except ValueError:
        given = None
    if given is None or given.tzinfo is None:
        reason = "is an instant with its time zone, as 2030-01-01T00:00:00Z"
        raise BadRequest(reason, field="expires_at", value=life.expires_at)
    if given.timestamp() <= now:
        raise BadRequest("is over already", field="expires_at", value=life.expires_at)
    return given.timestamp()


def shown_instant(seconds: float | None) -> str | None:
    """The instant as RFC 3339 has it, in UTC."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
