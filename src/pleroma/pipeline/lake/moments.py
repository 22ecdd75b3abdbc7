"""Moments of time, in UTC: one that says no zone is taken to be UTC, wherever it comes from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from pleroma.errors import LakeError

UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_MOMENT, LAST_MOMENT = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
ONE_MICROSECOND = timedelta(microseconds=1)


def utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def parsed(field: str, text: str) -> datetime:
    """A moment that a user wrote in ISO form; `field` names the option in an error."""
    try:
        return utc(datetime.fromisoformat(text))
    except (ValueError, OverflowError):  # in UTC it may lie before the first year, or after the last
        raise LakeError(f"{text!r} is no moment such as 2026-11-15T16:00", field=field, value=text) from None


def microseconds(moment: datetime) -> int:
    return (moment - UNIX_EPOCH) // ONE_MICROSECOND


def from_microseconds(count: int) -> datetime:
    return UNIX_EPOCH + timedelta(microseconds=count)


def hour_name(moment: datetime) -> str:
    """Such as 2026-11-15T16."""
    return utc(moment).isoformat(timespec="hours")[: len("2026-11-15T16")]


def hours_of(moments: NDArray[np.datetime64]) -> list[str]:
    """The hour of each moment, such as 2026-11-15T16."""
    hours, places = np.unique(moments.astype("datetime64[h]"), return_inverse=True)
    names: list[str] = np.array([str(each) for each in hours], object)[places].tolist()
    return names
