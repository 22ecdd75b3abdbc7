"""The tag that trails an event packet, and the keys that tags are made with.

The controller has a secret. From it follows a key for each schema, and from that a key for each publisher of the
schema: by keyed BLAKE2b, so nobody finds a key from those below it. A publisher gets its own key, a subscriber the key
of the schema, from which it derives the keys of all publishers. A publisher cannot make the tag of another publisher.
Whoever may read the schema can make every tag.
"""

from __future__ import annotations

from hashlib import blake2b
from hmac import compare_digest

from pleroma.errors import WireError
from pleroma.wire.header import MAX_EVENT_BYTES, PUBLISHER_PLACE, TAG_BYTES, TAGGED_START, too_large

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
    return _derived(secret, _SCHEMA + number.to_bytes(2) + name.encode())


def publisher_key(key: bytes, publisher: int) -> bytes:
    """The key of a publisher, from the key of its schema."""
    return _derived(key, _PUBLISHER + publisher.to_bytes(4))


def _derived(key: bytes, text: bytes) -> bytes:
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
        body = TAGGED_START + plain[len(TAGGED_START) :]
        return body + self.tag(body)


class SchemaSeals:
    """Checks the tags of all publishers of one schema, and makes them."""

    __slots__ = ("_key", "_known")

    def __init__(self, key: bytes) -> None:
        self._key = _checked(key)
        self._known: dict[bytes, PublisherSeal] = {}
        """By the number as packets have it."""

    def sealed(self, plain: bytes) -> bytes:
        """A packet with the tag of the publisher that it names, from the same packet without one."""
        number = plain[PUBLISHER_PLACE]
        seal = self._known.get(number) or self._remember(number, self._seal(number))
        return seal.sealed(plain)

    def is_genuine(self, data: bytes) -> bool:
        """Whether a packet has the tag of the publisher that it names."""
        if data[:2] != TAGGED_START:
            return False
        number = data[PUBLISHER_PLACE]
        known = self._known.get(number)
        seal = known or self._seal(number)
        if not compare_digest(seal.tag(data[:-TAG_BYTES]), data[-TAG_BYTES:]):
            return False
        if known is None:  # only now: forged packets can name more publishers than there is room for
            self._remember(number, seal)
        return True

    def _seal(self, number: bytes) -> PublisherSeal:
        return PublisherSeal(publisher_key(self._key, int.from_bytes(number)))

    def _remember(self, number: bytes, seal: PublisherSeal) -> PublisherSeal:
        if len(self._known) >= REMEMBERED_KEYS:
            del self._known[next(iter(self._known))]
        self._known[number] = seal
        return seal


def identity(data: bytes) -> bytes:
    """What two packets have in common only if they are the same packet that came twice.

    Publisher and sequence number alone would not do: anybody can write them into a packet of other content, which would
    then be taken for the genuine one, and the genuine one for a repetition.
    """
    if data[:2] == TAGGED_START:
        return data[_ORIGIN_PLACE] + data[-TAG_BYTES:]
    return blake2b(data, digest_size=16).digest()
