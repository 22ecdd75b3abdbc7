"""Encrypted event packets: who has no key reads the header and nothing else.

The key of a publisher, which also makes tags (`pleroma.wire.event_tags`), gives the key that its events are encrypted
with, by AES-256-GCM-SIV (RFC 8452) of the library `cryptography`. The header is authenticated, and twelve bytes of it
(of the sequence number and the time) are the nonce. If these ever were the same twice, an observer would learn whether
two events are equal, and nothing more.
"""

from __future__ import annotations

from collections.abc import Callable

from pleroma.content import Schema
from pleroma.errors import SetupError
from pleroma.wire.event_tags import EVENT_KEY_BYTES, PacketSeal, PublisherSeal, derived_key
from pleroma.wire.header import ENCRYPTED_START_OF, HEADER_FORM, MAX_PACKET_BYTES, too_large

_ENCRYPTION = b"encryption"
_NONCE = slice(12, 24)
"""Where a packet has the lower half of its sequence number and its time."""
_DECRYPTED_START_OF = {encrypted: plain for plain, encrypted in ENCRYPTED_START_OF.items()}


class PublisherCipher:
    """Encrypts and opens the packets of one publisher, in the place of a `PublisherSeal`."""

    __slots__ = ("_cipher", "_forged")

    def __init__(self, key: bytes) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV
        except ImportError:
            raise SetupError("events of encrypted schemas take the library cryptography: pleroma[encryption]") from None
        self._cipher, self._forged = AESGCMSIV(derived_key(key, _ENCRYPTION)), InvalidTag

    def sealed(self, plain: bytes) -> bytes:
        """A packet of which all behind the header is encrypted, from a plain one."""
        header = ENCRYPTED_START_OF[plain[:2]] + plain[2 : HEADER_FORM.size]
        data = header + self._cipher.encrypt(header[_NONCE], plain[HEADER_FORM.size :], header)
        if len(data) > MAX_PACKET_BYTES:
            raise too_large(len(data))
        return data

    def opened(self, data: bytes) -> bytes | None:
        """The plain packet of an encrypted one; None if it is not genuine."""
        start = _DECRYPTED_START_OF.get(data[:2])
        if start is None:
            return None
        header = data[: HEADER_FORM.size]
        try:
            return start + header[2:] + self._cipher.decrypt(header[_NONCE], data[HEADER_FORM.size :], header)
        except (self._forged, ValueError):  # ValueError: cut short
            return None


def seal_of(schema: Schema) -> Callable[[bytes], PacketSeal]:
    """What makes, of a publisher's key, the protection that the packets of a schema have: a tag or encryption."""
    if not schema.encrypted:
        return PublisherSeal
    PublisherCipher(bytes(EVENT_KEY_BYTES))  # without the library, an error now and not with the first packet
    return PublisherCipher
