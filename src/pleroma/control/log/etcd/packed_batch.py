"""A batch of entries as it lies under one key of etcd, and the head of the log beside it.

A batch names the writer and the attempt it came from, so that one whose answer was lost can be found again. Its digest
covers its place and its content; its chain stands for it and for all before it. Small bodies are packed together and
compressed: a transaction of etcd costs by its bytes and its keys.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from pleroma.control.log.durable_log import LOG_START, Position
from pleroma.errors import LogDamaged

BATCH_NONCE_BYTES = 16
_DIGEST_BYTES = 16
_LENGTH = struct.Struct(">I")
_BATCH = struct.Struct(f">4sBBQIQ{BATCH_NONCE_BYTES}s{_DIGEST_BYTES}s{_DIGEST_BYTES}s")
_HEAD = struct.Struct(f">4sBQ{BATCH_NONCE_BYTES}s{_DIGEST_BYTES}s{_DIGEST_BYTES}s")
_BATCH_MAGIC, _HEAD_MAGIC, _LAYOUT = b"PlrB", b"PlrH", 1
_IS_COMPRESSED, _IS_APART = 1, 2
_LEAST_COMPRESSED_BYTES = 256
_COMPRESSION_LEVEL = 1
NO_CHAIN = bytes(_DIGEST_BYTES)


@dataclass(frozen=True, slots=True)
class LogHead:
    """The last entry of a log, the batch that brought it, and the chain of all batches."""

    position: Position = LOG_START
    nonce: bytes = bytes(BATCH_NONCE_BYTES)
    chain: bytes = NO_CHAIN

    def packed(self) -> bytes:
        digest = _digest(self.position, self.nonce, self.chain)
        return _HEAD.pack(_HEAD_MAGIC, _LAYOUT, self.position, self.nonce, self.chain, digest)

    @classmethod
    def read(cls, key: bytes, value: bytes) -> LogHead:
        try:
            magic, layout, position, nonce, chain, digest = _HEAD.unpack(value)
        except struct.error:
            raise _damaged(key, "is not the head of a log") from None
        if (magic, layout) != (_HEAD_MAGIC, _LAYOUT) or digest != _digest(position, nonce, chain):
            raise _damaged(key, "is not what was written")
        return cls(Position(position), nonce, chain)


@dataclass(frozen=True, slots=True)
class PackedBodies:
    """The bodies of a batch, packed."""

    count: int
    flags: int
    payload: bytes

    @classmethod
    def of(cls, bodies: Sequence[bytes]) -> PackedBodies:
        plain = b"".join(part for body in bodies for part in (_LENGTH.pack(len(body)), body))
        small = zlib.compress(plain, _COMPRESSION_LEVEL) if len(plain) >= _LEAST_COMPRESSED_BYTES else plain
        if len(small) < len(plain):
            return cls(len(bodies), _IS_COMPRESSED, small)
        return cls(len(bodies), 0, plain)


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """Entries from `first` on. If `is_apart`, the payload lies elsewhere, in parts named by the nonce."""

    first: Position
    count: int
    nonce: bytes
    flags: int
    size: int
    digest: bytes
    chain: bytes
    payload: bytes

    @classmethod
    def after(cls, head: LogHead, nonce: bytes, bodies: PackedBodies, *, is_apart: bool) -> PackedBatch:
        first, flags, size = Position(head.position + 1), bodies.flags | is_apart * _IS_APART, len(bodies.payload)
        digest = _digest(first, nonce, bodies.payload, bodies.count, flags)
        chain = _chained(head.chain, digest)
        payload = b"" if is_apart else bodies.payload
        return cls(first, bodies.count, nonce, flags, size, digest, chain, payload)

    @property
    def last(self) -> Position:
        return Position(self.first + self.count - 1)

    @property
    def head(self) -> LogHead:
        """The head of the log when this is its last batch."""
        return LogHead(self.last, self.nonce, self.chain)

    @property
    def is_apart(self) -> bool:
        return bool(self.flags & _IS_APART)

    def follows(self, chain: bytes) -> bool:
        """Whether this is the batch that was appended to a log with this chain."""
        return self.chain == _chained(chain, self.digest)

    def packed(self) -> bytes:
        fields = (self.first, self.count, self.size, self.nonce, self.digest, self.chain)
        return _BATCH.pack(_BATCH_MAGIC, _LAYOUT, self.flags, *fields) + self.payload

    @classmethod
    def read(cls, key: bytes, value: bytes, last: int) -> PackedBatch:
        """The batch under a key that says where it ends."""
        try:
            magic, layout, flags, first, count, size, nonce, digest, chain = _BATCH.unpack_from(value)
        except struct.error:
            raise _damaged(key, "is not a batch of a log") from None
        batch = cls(Position(first), count, nonce, flags, size, digest, chain, value[_BATCH.size :])
        if (magic, layout) != (_BATCH_MAGIC, _LAYOUT) or batch.last != last or count < 1:
            raise _damaged(key, "is not what was written")
        return batch

    def bodies(self, key: bytes, payload: bytes) -> list[bytes]:
        """The bodies out of the payload, wherever it lay."""
        if len(payload) != self.size or self.digest != _digest(self.first, self.nonce, payload, self.count, self.flags):
            raise _damaged(key, "is not what was written")
        plain = zlib.decompress(payload) if self.flags & _IS_COMPRESSED else payload
        bodies, place = [], 0
        for _ in range(self.count):
            (length,) = _LENGTH.unpack_from(plain, place)
            place += _LENGTH.size + length
            bodies.append(plain[place - length : place])
        return bodies


def _digest(position: int, nonce: bytes, content: bytes, count: int = 0, flags: int = 0) -> bytes:
    digest = hashlib.blake2b(b"%d %d %d " % (position, count, flags), digest_size=_DIGEST_BYTES)
    digest.update(nonce)
    digest.update(content)
    return digest.digest()


def _chained(before: bytes, digest: bytes) -> bytes:
    return hashlib.blake2b(digest, key=before, digest_size=_DIGEST_BYTES).digest()


def _damaged(key: bytes, reason: str) -> LogDamaged:
    name = key.decode(errors="replace")
    return LogDamaged(f"{name} {reason}", field=name, value=name)
