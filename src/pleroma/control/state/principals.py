"""The principals of the state, by name and by the digests of their tokens.

A token that nobody has is found out by one look into a table, however many principals there are: trying tokens costs
the service no more than using them. Whatever is kept in memory for a principal goes when the principal is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pleroma.control.state.records import Principal, Token


class Principals(Mapping[str, Principal]):
    """Read it like a mapping from names; change it with `put` and `remove`."""

    def __init__(self) -> None:
        self.timed: dict[str, Principal] = {}
        """Those that have a token which is going to end."""
        self._by_name: dict[str, Principal] = {}
        self._by_digest: dict[str, Principal] = {}
        self._forget: list[Callable[[str], None]] = []

    def __getitem__(self, name: str) -> Principal:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def with_digest(self, digest: str) -> tuple[Principal, Token] | None:
        """The principal that has a token with this digest, and the token, which may be over."""
        found = self._by_digest.get(digest)
        if found is None:
            return None
        # compared once more in constant time: a table compares what it finds, and stops at the first difference
        token = found.token_with(digest)
        return None if token is None else (found, token)

    def on_removed(self, forget: Callable[[str], None]) -> None:
        """Have this called with the name of every principal that is removed. It must not raise an error."""
        self._forget.append(forget)

    def put(self, principal: Principal) -> None:
        """Add a principal, or put it in the place of the one of its name."""
        before = self._by_name.get(principal.name)
        self._by_name[principal.name] = principal
        for token in principal.tokens:
            self._by_digest[token.digest] = principal
        if before is not None:
            self._forget_tokens(before)
        if any(token.ends is not None and not token.is_over for token in principal.tokens):
            self.timed[principal.name] = principal

    def remove(self, name: str) -> None:
        self._forget_tokens(self._by_name.pop(name))
        for forget in self._forget:
            forget(name)

    def _forget_tokens(self, principal: Principal) -> None:
        """Forget the tokens of a principal that is here no longer, or no longer as it was."""
        for token in principal.tokens:
            if self._by_digest.get(token.digest) is principal:
                del self._by_digest[token.digest]
        if self.timed.get(principal.name) is principal:
            del self.timed[principal.name]
