"""Moments of time, in UTC: one that says no zone is taken to be UTC, wherever it comes from."""

from __future__ import annotations

from datetime import UTC, datetime

from pleroma.errors import LakeError


def utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def parsed(field: str, text: str) -> datetime:
    """A moment that a user wrote in ISO form; `field` names the option in an error."""
    try:
        return utc(datetime.fromisoformat(text))
    except (ValueError, OverflowError):  # in UTC it may lie before the first year, or after the last
        raise LakeError(f"{text!r} is no moment such as 2026-11-15T16:00", field=field, value=text) from None
