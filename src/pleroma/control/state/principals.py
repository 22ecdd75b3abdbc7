"""The principals of the state, by name and by the digest of their token.

A token that nobody has is found out by one look into a table, however many principals there are: trying tokens costs
the service no more than using them. Whatever is kept in memory for a principal goes when the principal is removed.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator, Mapping

from pleroma.control.state.records import Principal


class Principals(Mapping[str, Principal]):
    """Read it like a mapping from names; change it with `add` and `remove`."""

    def __init__(self) -> None:
        self._by_name: dict[str, Principal] = {}
        self._by_digest: dict[str, Principal] = {}
        self._forget: list[Callable[[str], None]] = []

    def __getitem__(self, name: str) -> Principal:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def with_digest(self, digest: str) -> Principal | None:
        """The principal whose token has this digest."""
        found = self._by_digest.get(digest)
        # compared once more in constant time: a table compares what it finds, and stops at the first difference
        return found if found is not None and hmac.compare_digest(found.digest, digest) else None

    def on_removed(self, forget: Callable[[str], None]) -> None:
        """Have this called with the name of every principal that is removed. It must not raise an error."""
        self._forget.append(forget)

    def add(self, principal: Principal) -> None:
        self._by_name[principal.name] = principal
        self._by_digest[principal.digest] = principal

    def remove(self, name: str) -> None:
        removed = self._by_name.pop(name)
        if self._by_digest.get(removed.digest) is removed:
            del self._by_digest[removed.digest]
        for forget in self._forget:
            forget(name)
