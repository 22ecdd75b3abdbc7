"""Which events of a publisher never came, by the numbers that its events have.

Events may overtake each other. So a number counts as missed only when the publisher is `WINDOW_NUMBERS` further, or
when an event comes that was published `SETTLED_NS` after all that came before. What was published before the first
event that came is not missed.
"""

from __future__ import annotations

WINDOW_NUMBERS = 64
SETTLED_NS = 1_000_000_000
"""Nanoseconds between the publication of two events, in which no event overtakes another."""
MAX_JUMP = 1_000_000
"""A number further ahead is taken for the beginning of another count."""
MAX_NUMBERED_PUBLISHERS = 4096
"""Publishers that are remembered; of more, those that came first are forgotten."""

_ALL = (1 << WINDOW_NUMBERS) - 1


class SequenceGaps:
    """By publisher: the highest number, when that event was published, and a bit for each of the last numbers."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, int, int]] = {}

    def missed(self, publisher: int, number: int, time: int) -> int:
        """Take note of an event that came: how many others are known to be missed, that were not before."""
        known = self._known.get(publisher)
        if known is None:
            if len(self._known) >= MAX_NUMBERED_PUBLISHERS:
                del self._known[next(iter(self._known))]
            known = number, time, _ALL
        highest, published, seen = known
        ahead = number - highest
        if ahead == 1 and seen == _ALL:  # as it is while nothing is missed
            self._known[publisher] = number, time, _ALL
            return 0
        if not -WINDOW_NUMBERS < ahead <= MAX_JUMP:
            self._known[publisher] = number, time, _ALL
            return 0
        if ahead <= 0:
            self._known[publisher] = highest, published, seen | 1 << -ahead
            return 0
        missed = 0
        if time - published > SETTLED_NS:
            missed, seen = WINDOW_NUMBERS - seen.bit_count(), _ALL
        seen = seen << min(ahead, WINDOW_NUMBERS) | 1
        missed += ahead - (seen >> WINDOW_NUMBERS).bit_count()
        self._known[publisher] = number, time, seen & _ALL
        return missed
