"""The secret of a controller that the keys of events follow from, and which key goes with which registration.

The secret is a file of its own, made at the first start, that only its owner reads. It is not in the log, and nor are
the keys: they are derived whenever a registration is answered.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

from pleroma.control import SchemaEntry
from pleroma.errors import SetupError
from pleroma.private_file import write_private
from pleroma.wire.event_tags import EVENT_KEY_BYTES, publisher_key, schema_key

EVENT_KEYS_FILE = "events.key"


class SecretStore(Protocol):
    def shared_secret(self, name: str, make: Callable[[], bytes]) -> bytes:
        """A secret that all processes on a log share: the first that asks for it makes it."""


def shared_keys(store: SecretStore) -> EventKeys:
    """With the secret that all processes on a log have."""
    return EventKeys(store.shared_secret(EVENT_KEYS_FILE, lambda: secrets.token_bytes(EVENT_KEY_BYTES)))


def secrets_in(folder: Path) -> dict[str, bytes]:
    """What a controller keeps in its folder and all processes share on a log: nothing where events have no tags."""
    return {EVENT_KEYS_FILE: EventKeys.open(folder).secret} if (folder / EVENT_KEYS_FILE).exists() else {}


def keep_in(folder: Path, secret: bytes | None) -> None:
    """The opposite: the secret of a log becomes that of a controller, if there is one."""
    if secret is not None:
        write_private(folder / EVENT_KEYS_FILE, secret.hex())


class EventKeys:
    """`id` tells one secret from another, and says nothing about it."""

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        self.id = blake2b(b"id", key=secret, digest_size=8).hexdigest()

    @classmethod
    def open(cls, folder: Path) -> EventKeys:
        """With the secret in the folder, which is made if there is none. The caller has locked the folder."""
        path = folder / EVENT_KEYS_FILE
        if not path.exists():
            write_private(path, secrets.token_hex(EVENT_KEY_BYTES))
        try:
            secret = bytes.fromhex(path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            secret = b""
        if len(secret) != EVENT_KEY_BYTES:
            raise SetupError("cannot be read: delete it to have another made", field=str(path))
        return cls(secret)

    def of(self, entry: SchemaEntry, publisher: int | None) -> str:
        """The key that the owner of a registration is given, in hex: of its publisher, or else of the schema."""
        key = schema_key(self.secret, entry.number, entry.name)
        return (key if publisher is None else publisher_key(key, publisher)).hex()
