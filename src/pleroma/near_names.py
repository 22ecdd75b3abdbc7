"""The name that somebody may have meant who gave one that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MAX_COMPARED_NAMES, _MAX_COMPARED_CHARACTERS = 256, 200
"""Of so many names the nearest is looked for: to compare thousands takes longer than the request that named none."""
_MIN_LIKENESS = 0.7
"""From 0 to 1, as `difflib` measures it: one wrong letter of four is 0.75."""
_MIN_COMMON_START = 3
"""Characters with which a name begins another, for the other to be meant."""


def near_name(name: str, known: Iterable[str]) -> str | None:
    """The one of the known names that may have been meant: with a slip or two, or one that begins the other."""
    folded = {each.lower(): each for each in known}
    short = name[:_MAX_COMPARED_CHARACTERS].lower()
    close = difflib.get_close_matches(short, folded, n=1, cutoff=_MIN_LIKENESS)
    if close:
        return folded[close[0]]
    begins = (each for each in folded if each.startswith(short) or short.startswith(each))
    return next((folded[each] for each in begins if min(len(each), len(short)) >= _MIN_COMMON_START), None)
