"""Snapshots in etcd: the compressed state in parts, and a manifest that is written when all parts are.

Several processes may save snapshots at once; a transaction decides which of them count. The newest is kept, and the
newest intact one before it.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from pleroma.control.log.durable_log import LOG_START, LogSnapshot, Position, Recovery
from pleroma.control.log.etcd.etcd_gateway import EtcdGateway
from pleroma.control.log.etcd.log_keys import LogKeys, position_of
from pleroma.control.log.etcd.packed_batch import LogHead
from pleroma.control.log.etcd.stored_parts import StoredParts
from pleroma.control.log.etcd.transaction import Json, StoredKey, delete, find, none_after, put, transaction
from pleroma.errors import LogDamaged, LogError, LogUnclear

_ID_BYTES = 16
_MANIFEST = struct.Struct(f">4sBQQ{_ID_BYTES}s32s")
_MANIFEST_MAGIC, _LAYOUT = b"PlrS", 1
_COMPRESSION_LEVEL = 1
_MAX_SAVE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class SnapshotManifest:
    """Which parts a snapshot has: `size` bytes together. The digest covers them and the position."""

    position: Position
    size: int
    id: bytes
    digest: bytes

    def packed(self) -> bytes:
        return _MANIFEST.pack(_MANIFEST_MAGIC, _LAYOUT, self.position, self.size, self.id, self.digest)

    @classmethod
    def of(cls, position: int, stored: bytes) -> SnapshotManifest:
        return cls(Position(position), len(stored), secrets.token_bytes(_ID_BYTES), _digest(position, stored))

    @classmethod
    def read(cls, found: StoredKey) -> SnapshotManifest | None:
        """The manifest under a key; None if it is not one, or one of another position."""
        try:
            magic, layout, position, size, parts, digest = _MANIFEST.unpack(found.value)
        except struct.error:
            return None
        if (magic, layout, position) != (_MANIFEST_MAGIC, _LAYOUT, position_of(found.key)):
            return None
        return cls(Position(position), size, parts, digest)


class StoredSnapshots:
    """The snapshots of one log."""

    def __init__(self, gateway: EtcdGateway, keys: LogKeys, parts: StoredParts) -> None:
        self._gateway = gateway
        self._keys = keys
        self._parts = parts

    def positions(self) -> list[Position]:
        """Where there are snapshots, intact or not, the newest first."""
        return [_position(each) for each in self._found(self._gateway.find(*self._keys.all_of(b"s")).keys)]

    def save(self, position: int, state: bytes) -> None:
        stored = zlib.compress(state, _COMPRESSION_LEVEL)
        manifest = SnapshotManifest.of(position, stored)
        self._check(position)
        self._parts.write(manifest.id, stored)
        limit = time.monotonic() + _MAX_SAVE_SECONDS
        unclear = False
        while time.monotonic() < limit:
            kept, revision = self._check(position, manifest)
            if kept is None:
                return
            before = next((each for each in kept if _position(each) != position and self._load(each) is not None), None)
            gone = [each for each in kept if each is not before and _position(each) != position]
            snapshots = self._keys.all_of(b"s")
            answer = transaction(
                [none_after(*snapshots, revision), *self._parts.conditions(manifest.id)],
                [
                    *(delete(each.key) for each in gone),
                    put(self._keys.snapshot(position), manifest.packed()),
                    *self._parts.taken_up(manifest.id),
                ],
            )
            try:
                if self._gateway.transact(answer).succeeded:
                    return
            except LogUnclear:
                unclear = True
        kind = LogUnclear if unclear else LogError
        raise kind("the snapshot could not be saved in time", field="position", value=position)

    def stored(self, position: int, state: bytes) -> list[Json]:
        """Store the first snapshot of a log that is made of another; it counts when these operations are done."""
        stored = zlib.compress(state, _COMPRESSION_LEVEL)
        manifest = SnapshotManifest.of(position, stored)
        self._parts.write(manifest.id, stored)
        return [put(self._keys.snapshot(position), manifest.packed()), *self._parts.taken_up(manifest.id)]

    def latest(self) -> Recovery:
        while True:
            recovery = self._latest()
            if recovery is not None:
                return recovery

    def _latest(self) -> Recovery | None:
        """The newest intact snapshot; None if somebody replaced one while it was read."""
        damaged: list[Position] = []
        for each in self._found(self._gateway.find(*self._keys.all_of(b"s")).keys):
            stored = self._load(each)
            if stored is not None:
                return Recovery(LogSnapshot(_position(each), zlib.decompress(stored)), tuple(damaged))
            if self._gateway.find(each.key).only != each:
                return None
            damaged.append(_position(each))
        return Recovery(None, tuple(damaged))

    def _check(self, position: int, own: SnapshotManifest | None = None) -> tuple[Sequence[StoredKey] | None, int]:
        """The snapshots that are there, the newest first, and the revision; None if our own is among them."""
        answer = self._gateway.look([find(self._keys.head), find(*self._keys.all_of(b"s"))])
        head_key, kept = answer.found[0].only, self._found(answer.found[1].keys)
        if own is not None and any(SnapshotManifest.read(each) == own for each in kept):
            return None, answer.revision
        head = LogHead.read(head_key.key, head_key.value).position if head_key is not None else LOG_START
        newest = _position(kept[0]) if kept else LOG_START
        if not newest <= position <= head:
            reason = f"the last snapshot is at {newest} and the log ends at {head}"
            raise LogError(reason, field="position", value=position)
        return kept, answer.revision

    def _load(self, found: StoredKey) -> bytes | None:
        """What was stored of a snapshot, or None if it is not what was written."""
        manifest = SnapshotManifest.read(found)
        stored = self._parts.read(manifest.id, manifest.size) if manifest is not None else None
        if manifest is None or stored is None or manifest.digest != _digest(manifest.position, stored):
            return None
        return stored

    def _found(self, keys: Sequence[StoredKey]) -> list[StoredKey]:
        for each in keys:
            if position_of(each.key) is None:
                name = each.key.decode(errors="replace")
                raise LogDamaged(f"{name} is not a snapshot of a log", field=name, value=name)
        return sorted(keys, key=_position, reverse=True)


def _position(found: StoredKey) -> Position:
    return Position(position_of(found.key) or LOG_START)


def _digest(position: int, stored: bytes) -> bytes:
    digest = hashlib.sha256(b"%d " % position)
    digest.update(stored)
    return digest.digest()
