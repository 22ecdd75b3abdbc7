"""Content that is larger than a request to etcd may be: in parts, written before the transaction that refers to them.

While parts are written, a key with a lease says so, and the transaction that refers to them takes that key away. Parts
that nobody refers to and nobody is writing are left behind by a writer that died, and can be collected.
"""

from __future__ import annotations

import time
from contextlib import suppress

from pleroma.control.log.etcd.etcd_gateway import EtcdGateway
from pleroma.control.log.etcd.log_keys import LogKeys
from pleroma.control.log.etcd.transaction import Json, delete, is_there, put
from pleroma.errors import LogError

PART_BYTES = 2**20
"""etcd refuses requests of more than 1.5 MiB by default."""
_PARTS_PER_READ = 4
_WRITING_SECONDS = 60


class StoredParts:
    """The parts of one log."""

    def __init__(self, gateway: EtcdGateway, keys: LogKeys) -> None:
        self._gateway = gateway
        self._keys = keys

    def write(self, id: bytes, content: bytes) -> None:
        """Write parts; they stay for a minute unless a transaction takes them up, or `write` fails."""
        lease = self._gateway.grant(_WRITING_SECONDS)
        try:
            self._put(self._keys.writing(id), b"", lease)
            kept = time.monotonic()
            for number, start in enumerate(range(0, len(content), PART_BYTES)):
                self._put(self._keys.part(id, number), content[start : start + PART_BYTES])
                if time.monotonic() - kept > _WRITING_SECONDS / 4:
                    self._gateway.keep(lease)
                    kept = time.monotonic()
            self._gateway.keep(lease)
        except BaseException:
            with suppress(LogError):
                self.drop(id)
            raise

    def conditions(self, id: bytes) -> list[Json]:
        """What a transaction that refers to parts has to compare."""
        return [is_there(self._keys.writing(id))]

    def taken_up(self, id: bytes) -> list[Json]:
        """What a transaction that refers to parts has to do."""
        return [delete(self._keys.writing(id))]

    def read(self, id: bytes, size: int) -> bytes | None:
        """The content of so many bytes; None if a part of it is missing."""
        content = bytearray()
        start, end = self._keys.parts(id)
        while len(content) < size:
            found = self._gateway.find(start, end, limit=_PARTS_PER_READ)
            for each in found.keys:
                content += each.value
            if not found.keys:
                break
            start = found.keys[-1].key + b"\0"
        return bytes(content) if len(content) == size else None

    def drop(self, id: bytes) -> None:
        start, end = self._keys.parts(id)
        self._gateway.ask("kv/deleterange", delete(start, end)["request_delete_range"])

    def _put(self, key: bytes, value: bytes, lease: int = 0) -> None:
        self._gateway.ask("kv/put", put(key, value, lease)["request_put"])
