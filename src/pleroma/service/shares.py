"""Shares of what there is only so much of: attachments, streams, room for connections.

One rule for all of them: an owner has at most half of what the others leave. Alone it has half of everything, and the
next one half of the rest: however greedy some owners are, there is something left for one more. An owner is whoever
answers for what is taken: a principal, or for connections without a token the address they come from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from pleroma.errors import TooFast


def share(limit: int, others: int) -> int:
    """How much of `limit` one owner may have while the others have so much of it: half of the rest, but at least 1."""
    return max(1, (limit - others) // 2)


class Shares:
    """Things of one kind that principals take and give back. `what` names the kind in the plural."""

    def __init__(self, what: str, limit: int, retry_seconds: float) -> None:
        self._what = what
        self._limit = limit
        self._retry_seconds = retry_seconds
        self._total = 0
        self._by_principal: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._total

    def held_by(self, principal: str) -> int:
        return self._by_principal[principal]

    def take(self, principal: str) -> Callable[[], None]:
        """Take one for a principal; raises `TooFast` if there is none for it. Call the result once to give it back."""
        mine = self._by_principal[principal]
        if self._total >= self._limit:
            raise TooFast(f"there are {self._limit} {self._what}, and no room for more", self._retry_seconds)
        if mine >= share(self._limit, self._total - mine):
            reason = (
                f"{principal} has {mine} {self._what}, and no room for more: "
                f"of {self._limit}, a principal has at most half of what others leave"
            )
            raise TooFast(reason, self._retry_seconds)
        self._by_principal[principal] = mine + 1
        self._total += 1
        return lambda: self._give_back(principal)

    def _give_back(self, principal: str) -> None:
        self._total -= 1
        self._by_principal[principal] -= 1
        if not self._by_principal[principal]:
            del self._by_principal[principal]
