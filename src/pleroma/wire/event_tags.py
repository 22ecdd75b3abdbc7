"""The tag that trails an event packet, and the keys that tags are made with.

The controller has a secret. From it follows a key for each schema, and from that a key for each publisher of the
schema: by keyed BLAKE2b, so nobody finds a key from those below it. A publisher gets its own key, a subscriber the key
of the schema, from which it derives the keys of all publishers. A publisher cannot make the tag of another publisher.
Whoever may read the schema can make every tag.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from hmac import compare_digest
from typing import Protocol

from pleroma.errors import WireError
from pleroma.wire.header import (
    ENCRYPTED_STARTS,
    MAX_EVENT_BYTES,
    PUBLISHER_PLACE,
    TAG_BYTES,
    TAGGED_START_OF,
    TAGGED_STARTS,
    too_large,
)

EVENT_KEY_BYTES = 32
"""Of the secret, and of every key that follows from it."""
REMEMBERED_KEYS = 16_384
"""Keys of publishers that a reader of a schema keeps at hand."""

_SCHEMA, _PUBLISHER = b"schema", b"publisher"
"""What the keyed text begins with, so that a key serves one purpose only."""
_ORIGIN_PLACE = slice(8, 28)
"""Where a packet has the sequence number, the time and the publisher."""


def schema_key(secret: bytes, number: int, name: str) -> bytes:
    """The key of a schema: for its subscribers."""
    return derived_key(secret, _SCHEMA + number.to_bytes(2) + name.encode())


def publisher_key(key: bytes, publisher: int) -> bytes:
    """The key of a publisher, from the key of its schema."""
    return derived_key(key, _PUBLISHER + publisher.to_bytes(4))


def derived_key(key: bytes, text: bytes) -> bytes:
    """A key for one purpose, which `text` says, from another key."""
    return blake2b(text, key=_checked(key), digest_size=EVENT_KEY_BYTES).digest()


def _checked(key: bytes) -> bytes:
    if len(key) != EVENT_KEY_BYTES:
        raise WireError(f"a key has {EVENT_KEY_BYTES} bytes, not {len(key)}", field="key", value=len(key))
    return key


class PublisherSeal:
    """Makes the tags of one publisher."""

    __slots__ = ("_keyed",)

    def __init__(self, key: bytes) -> None:
        self._keyed = blake2b(key=_checked(key), digest_size=TAG_BYTES)

    def tag(self, body: bytes) -> bytes:
        """The tag of a packet, from all that comes before it."""
        keyed = self._keyed.copy()
        keyed.update(body)
        return keyed.digest()

    def sealed(self, plain: bytes) -> bytes:
        """A packet with its tag, from the same packet without one."""
        if len(plain) > MAX_EVENT_BYTES:
            raise too_large(len(plain) + TAG_BYTES)
        body = TAGGED_START_OF[plain[:2]] + plain[2:]
        return body + self.tag(body)

    def opened(self, data: bytes) -> bytes | None:
        """The packet itself if its tag is genuine, else None."""
        if data[:2] not in TAGGED_STARTS or not compare_digest(self.tag(data[:-TAG_BYTES]), data[-TAG_BYTES:]):
            return None
        return data


class PacketSeal(Protocol):
    """Protects the packets of one publisher: by a tag, or by encrypting them."""

    def sealed(self, plain: bytes) -> bytes:
        """The protected packet, from a plain one."""

    def opened(self, data: bytes) -> bytes | None:
        """A packet that a codec can read, from a protected one; None if that is not genuine."""


class SchemaSeals:
    """Opens the packets of all publishers of one schema, and makes them.

    `seal` makes from a publisher's key what protects its packets.
    """

    __slots__ = ("_key", "_known", "_make")

    def __init__(self, key: bytes, seal: Callable[[bytes], PacketSeal] = PublisherSeal) -> None:
        self._key = _checked(key)
        self._make = seal
        self._known: dict[bytes, PacketSeal] = {}
        """By the number as packets have it."""

    def sealed(self, plain: bytes) -> bytes:
        """A packet protected as by the publisher that it names, from a plain one."""
        number = plain[PUBLISHER_PLACE]
        seal = self._known.get(number) or self._remember(number, self._seal(number))
        return seal.sealed(plain)

    def opened(self, data: bytes) -> bytes | None:
        """A packet that a codec can read; None if this one is not from the publisher that it names."""
        number = data[PUBLISHER_PLACE]
        known = self._known.get(number)
        seal = known or self._seal(number)
        opened = seal.opened(data)
        if opened is not None and known is None:  # forged packets can name more publishers than there is room for
            self._remember(number, seal)
        return opened

    def is_genuine(self, data: bytes) -> bool:
        """Whether a packet is from the publisher that it names."""
        return self.opened(data) is not None

    def _seal(self, number: bytes) -> PacketSeal:
        return self._make(publisher_key(self._key, int.from_bytes(number)))

    def _remember(self, number: bytes, seal: PacketSeal) -> PacketSeal:
        if len(self._known) >= REMEMBERED_KEYS:
            del self._known[next(iter(self._known))]
        self._known[number] = seal
        return seal


def identity(data: bytes) -> bytes:
    """What two packets have in common only if they are the same packet that came twice.

    Publisher and sequence number alone would not do: anybody can write them into a packet of other content, which would
    then be taken for the genuine one, and the genuine one for a repetition.
    """
    if data[:2] in TAGGED_STARTS or data[:2] in ENCRYPTED_STARTS:
        return data[_ORIGIN_PLACE] + data[-TAG_BYTES:]
    return blake2b(data, digest_size=16).digest()
