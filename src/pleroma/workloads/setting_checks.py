"""Checks that settings share, each with one clear error that names the setting and the value."""

from __future__ import annotations

import math
import sys
from typing import Any

from pleroma.errors import WorkloadError, shown


def check_whole(field: str, value: Any, least: int, most: float = math.inf) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise WorkloadError(f"{shown(value)} is not a whole number", field=field, value=value)
    if not least <= value <= most:
        raise WorkloadError(f"must be {_bounds(least, most)}, not {shown(value)}", field=field, value=value)


def check_number(field: str, value: Any, least: float = 0.0, most: float = math.inf) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
        raise WorkloadError(f"{shown(value)} is not a finite number", field=field, value=value)
    if not least <= value <= most:
        raise WorkloadError(f"must be {_bounds(least, most)}, not {shown(value)}", field=field, value=value)


def check_positive(field: str, value: Any, most: float = math.inf) -> None:
    check_number(field, value, 0.0, most)
    if value == 0:
        raise WorkloadError("must be more than 0", field=field, value=value)


def check_one_of(field: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise WorkloadError(f"is one of {', '.join(known)}, not {shown(value)}", field=field, value=value)


def _bounds(least: float, most: float) -> str:
    return f"at least {least:.15g}" if most == math.inf else f"from {least:.15g} to {most:.15g}"
