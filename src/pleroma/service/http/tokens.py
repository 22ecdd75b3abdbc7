"""Bearer tokens, and the principals that they belong to.

A token is 256 random bits. Only a digest of it is stored, the verifier of `wire.token_proof`: such a token cannot be
guessed, with or without the digest, so the slow, salted hashes that short human passwords need would cost time on every
request and add nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from pleroma.control import ControlState, Principal, Token
from pleroma.errors import NotAuthenticated, TokenExpired
from pleroma.wire.token_proof import client_key, verifier_of

TOKEN_PREFIX = "plr_"  # noqa: S105
"""Makes a token recognisable for people, and for programs that look for leaked ones."""
_MAX_TOKEN_BYTES = 200


def new_token() -> str:
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def digest(token: str | bytes) -> str:
    """What is stored of a token, in hex."""
    return verifier_of(client_key(token)).hex()


class Callers:
    """Finds the principal of a request, and the token that it shows. `is_over` tells whether a token has ended."""

    def __init__(self, state: ControlState, is_over: Callable[[Token], bool] = lambda token: token.is_over) -> None:
        self._state = state
        self._is_over = is_over

    def who(self, authorization: bytes | None) -> tuple[Principal, Token]:
        """Whose token is in an Authorization header; raises `NotAuthenticated`, which never quotes it."""
        if authorization is None:
            raise NotAuthenticated("a token is needed: Authorization: Bearer TOKEN", field="authorization")
        kind, _, token = authorization.partition(b" ")
        if kind.lower() != b"bearer":
            raise NotAuthenticated("the authorization is not a bearer token", field="authorization")
        is_short = len(token) <= _MAX_TOKEN_BYTES
        return self._good(self._state.principals.with_digest(digest(token.strip())) if is_short else None)

    def still(self, name: str, known: str) -> tuple[Principal, Token]:
        """The principal of this name, if it still has the token with this digest."""
        principal = self._state.principals.get(name)
        token = None if principal is None else principal.token_with(known)
        return self._good(None if principal is None or token is None else (principal, token))

    def _good(self, found: tuple[Principal, Token] | None) -> tuple[Principal, Token]:
        if found is None:
            raise NotAuthenticated("nobody has this token, or no longer", field="authorization")
        if self._is_over(found[1]):
            raise TokenExpired("this token has ended: ask an administrator for another", field="authorization")
        return found
