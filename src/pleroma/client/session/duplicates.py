"""Which packets were received before, by what is in them (`pleroma.wire.event_tags.identity`).

An event that lies in several cells of a plan may arrive several times, shortly one after another. So it is enough to
remember the last few thousand events: in two sets, of which the older is dropped when the newer is full.
"""

from __future__ import annotations

REMEMBERED_EVENTS = 16_384


class Duplicates:
    """Remembers at least the last `window` events, at most twice as many."""

    __slots__ = ("_newer", "_older", "_window")

    def __init__(self, window: int = REMEMBERED_EVENTS) -> None:
        if window < 1:
            raise ValueError(f"a window of {window} events")
        self._window = window
        self._newer: set[bytes] = set()
        self._older: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._newer) + len(self._older)

    def repeats(self, event: bytes) -> bool:
        """Whether an event of this identity was received before. It is remembered from now on."""
        if event in self._newer or event in self._older:
            return True
        if len(self._newer) >= self._window:
            self._older, self._newer = self._newer, set()
        self._newer.add(event)
        return False
