"""Bearer tokens, and the principals that they belong to.

A token is 256 random bits. Only a digest of it is stored, the verifier of `wire.token_proof`: such a token cannot be
guessed, with or without the digest, so the slow, salted hashes that short human passwords need would cost time on every
request and add nothing.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from pleroma.control import ControlState, Principal
from pleroma.errors import NotAuthenticated
from pleroma.wire.token_proof import client_key, verifier_of

TOKEN_PREFIX = "plr_"  # noqa: S105
"""Makes a token recognisable for people, and for programs that look for leaked ones."""
_MAX_TOKEN_BYTES = 200


def new_token() -> str:
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def digest(token: str | bytes) -> str:
    """What is stored of a token, in hex."""
    return verifier_of(client_key(token)).hex()


def write_private(path: Path, token: str) -> None:
    """Write a token or another secret into a file that only its owner can read, also while it is written."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{token}\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


class Callers:
    """Finds the principal of a request."""

    def __init__(self, state: ControlState) -> None:
        self._state = state

    def who(self, authorization: bytes | None) -> Principal:
        """The principal of the token in an Authorization header; raises `NotAuthenticated`, which never quotes it."""
        if authorization is None:
            raise NotAuthenticated("a token is needed: Authorization: Bearer TOKEN", field="authorization")
        kind, _, token = authorization.partition(b" ")
        if kind.lower() != b"bearer":
            raise NotAuthenticated("the authorization is not a bearer token", field="authorization")
        is_short = len(token) <= _MAX_TOKEN_BYTES
        principal = self._state.principals.with_digest(digest(token.strip())) if is_short else None
        if principal is None:
            raise NotAuthenticated("nobody has this token, or no longer", field="authorization")
        return principal

    def still(self, name: str, known: str) -> Principal:
        """The principal of this name, if its token still is the one with this digest."""
        principal = self._state.principals.get(name)
        if principal is None or principal.digest != known:
            raise NotAuthenticated("nobody has this token, or no longer", field="authorization")
        return principal
