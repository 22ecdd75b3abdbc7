"""Answers of different programs to the same question, as values that can be compared."""

import math
from typing import Any


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    """The rows of a pandas DataFrame; whatever stands for nothing is None, and moments are texts."""
    return [tuple(_plain(value) for value in row) for row in frame.itertuples(index=False, name=None)]


def _plain(value: Any) -> Any:
    if value is None or str(value) in ("nan", "NaT", "<NA>"):
        return None
    if hasattr(value, "isoformat"):
        moment = value.tz_convert("UTC").tz_localize(None) if getattr(value, "tzinfo", None) else value
        return moment.isoformat()
    if isinstance(value, bool | str):
        return value
    number = float(value)
    return int(number) if number.is_integer() else math.floor(number * 1e9 + 0.5) / 1e9
