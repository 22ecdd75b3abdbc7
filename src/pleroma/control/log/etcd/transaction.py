"""What etcd's JSON gateway is told and answers, as values: comparisons, operations, keys with their revisions.

Keys and values are bytes and travel in base64; numbers of 64 bits travel as text, and a zero is left out.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as it is at some revision of the store. `create_revision` differs between two lives of the same key."""

    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int
    lease: int


@dataclass(frozen=True, slots=True)
class FoundKeys:
    """`more` says that a limit has cut them short."""

    keys: tuple[StoredKey, ...]
    more: bool

    @property
    def only(self) -> StoredKey | None:
        """The key that was asked for, if it is there."""
        return self.keys[0] if self.keys else None


@dataclass(frozen=True, slots=True)
class TransactionAnswer:
    """`found` is what the range operations found, in their order, on whichever branch was taken."""

    succeeded: bool
    revision: int
    found: tuple[FoundKeys, ...]


def put(key: bytes, value: bytes, lease: int = 0) -> Json:
    return {"request_put": {"key": _text(key), "value": _text(value)} | ({"lease": str(lease)} if lease else {})}


def find(key: bytes, end: bytes | None = None, *, limit: int = 0, keys_only: bool = False) -> Json:
    """The key, or the first `limit` (0: all) from `key` up to `end`, in order."""
    return {"request_range": _keys(key, end) | {"limit": str(limit), "keys_only": keys_only}}


def delete(key: bytes, end: bytes | None = None) -> Json:
    return {"request_delete_range": _keys(key, end)}


def is_at(key: bytes, mod_revision: int) -> Json:
    """Holds if the key was written last at this revision: nobody has written it since."""
    return _keys(key, None) | {"target": "MOD", "result": "EQUAL", "mod_revision": str(mod_revision)}


def none_after(key: bytes, end: bytes, mod_revision: int) -> Json:
    """Holds if no key of this range was written after this revision."""
    return _keys(key, end) | {"target": "MOD", "result": "LESS", "mod_revision": str(mod_revision + 1)}


def is_absent(key: bytes, end: bytes | None = None) -> Json:
    """Holds if the key, or every key of the range, is not there."""
    return _keys(key, end) | {"target": "CREATE", "result": "EQUAL", "create_revision": "0"}


def is_there(key: bytes) -> Json:
    return _keys(key, None) | {"target": "CREATE", "result": "GREATER", "create_revision": "0"}


def after_prefix(prefix: bytes) -> bytes:
    """The end of the range of all keys with this prefix."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


def transaction(compare: Sequence[Json], success: Sequence[Json], failure: Sequence[Json] = ()) -> Json:
    return {"compare": list(compare), "success": list(success), "failure": list(failure)}


def read_transaction(answer: Mapping[str, Any]) -> TransactionAnswer:
    responses = answer.get("responses", ())
    found = tuple(read_found(each["response_range"]) for each in responses if "response_range" in each)
    return TransactionAnswer(answer.get("succeeded", False), int(answer["header"]["revision"]), found)


def read_found(answer: Mapping[str, Any]) -> FoundKeys:
    return FoundKeys(tuple(map(read_key, answer.get("kvs", ()))), answer.get("more", False))


def read_key(answer: Mapping[str, Any]) -> StoredKey:
    return StoredKey(
        b64decode(answer["key"]),
        b64decode(answer.get("value", "")),
        int(answer.get("create_revision", 0)),
        int(answer.get("mod_revision", 0)),
        int(answer.get("lease", 0)),
    )


def _keys(key: bytes, end: bytes | None) -> Json:
    return {"key": _text(key)} | ({} if end is None else {"range_end": _text(end)})


def _text(value: bytes) -> str:
    return b64encode(value).decode()
