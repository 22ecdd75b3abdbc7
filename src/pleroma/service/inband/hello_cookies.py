"""Cookies that a hello has to carry: they show that the sender gets answers at the place and address that it claims.

A cookie is a keyed hash of where a hello came from, so the server remembers nothing until somebody comes back with one.
It is good for that sender only, and not for long: a hello that somebody recorded opens nothing elsewhere or later.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from hashlib import blake2b

from pleroma.service.inband.carrier import Peer
from pleroma.wire.inband_messages import COOKIE_BYTES, Hello

COOKIE_PERIOD_SECONDS = 10.0
"""A cookie is good in the period that it was made in, and in the next."""
_SECRET_BYTES = 32


class HelloCookies:
    """Its secret is that of one process: after a restart, clients are given new cookies."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._secret = secrets.token_bytes(_SECRET_BYTES)
        self._clock = clock

    def made_for(self, peer: Peer, nonce: bytes) -> bytes:
        """The cookie for a hello with this nonce from this peer, now."""
        return self._cookie(peer, nonce, self._period)

    def is_good(self, peer: Peer, hello: Hello) -> bool:
        """Whether a hello carries a cookie that was made for it not long ago."""
        now = self._period
        good = (self._cookie(peer, hello.nonce, period) for period in (now, now - 1))
        return any(hmac.compare_digest(hello.cookie, each) for each in good)

    @property
    def _period(self) -> int:
        return int(self._clock() // COOKIE_PERIOD_SECONDS)

    def _cookie(self, peer: Peer, nonce: bytes, period: int) -> bytes:
        said = f"{peer.place!r} {peer.address} {peer.port} {period} ".encode() + nonce
        return blake2b(said, digest_size=COOKIE_BYTES, key=self._secret).digest()
