"""The answers to requests that may be sent again, by their keys.

Which entry of the log is a repetition is decided here, as the log is followed: whoever follows it decides alike, also
where several processes append. The answers are kept as text: most of them are never read again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pleroma.errors
from pleroma.control.state.command import canonical
from pleroma.control.state.result import CommandRefused, Done, Result
from pleroma.errors import ControlError, KeyConflict, PleromaError

REMEMBERED_POSITIONS = 100_000
"""So far back in the log, a repetition is recognised."""
MAX_KEY_CHARACTERS = 200
DIGEST_BYTES = 16


class KeptAnswer(NamedTuple):
    position: int
    key: str
    digest: bytes
    """Of the request. Another request under the same key is no repetition."""
    answer: str
    """As JSON."""

    @property
    def line(self) -> str:
        """For snapshots, with tabs between."""
        return f"{self.position}\t{canonical(self.key)}\t{self.digest.hex()}\t{self.answer}"

    @property
    def result(self) -> Result:
        return _from_json(json.loads(self.answer))


def check_key(key: str) -> None:
    """Refuse what cannot be the key of a request."""
    if not 0 < len(key) <= MAX_KEY_CHARACTERS:
        reason = f"a key has 1 to {MAX_KEY_CHARACTERS} characters, not {len(key)}"
        raise ControlError(reason, field="key", value=key)
    try:
        key.encode()
    except UnicodeEncodeError:
        raise ControlError("the key is not valid Unicode", field="key", value=key) from None


def request_digest(body: bytes) -> bytes:
    """Stands for a request: the body of its log entry, in which the key is too."""
    return hashlib.sha256(body).digest()[:DIGEST_BYTES]


class KeptAnswers:
    """The answers of the last `remember` positions."""

    def __init__(self, remember: int = REMEMBERED_POSITIONS) -> None:
        self._remember = remember
        self._by_key: dict[str, KeptAnswer] = {}
        """In the order of the log."""

    def __len__(self) -> int:
        return len(self._by_key)

    def repeated(self, key: str, body: bytes) -> KeptAnswer | None:
        """What this request was answered, if it came before; raises `KeyConflict` if another one had its key."""
        kept = self._by_key.get(key)
        if kept is not None and kept.digest != request_digest(body):
            raise KeyConflict("the key belongs to another request", field="key", value=key)
        return kept

    def keep(self, position: int, key: str, body: bytes, result: Result) -> None:
        """Keep the answer to a request whose key is not known."""
        self._by_key[key] = KeptAnswer(position, key, request_digest(body), canonical(_to_json(result)))

    def forget(self, position: int) -> None:
        """Forget what is too far back from this position."""
        while self._by_key and (oldest := next(iter(self._by_key.values()))).position <= position - self._remember:
            del self._by_key[oldest.key]

    def items(self) -> list[KeptAnswer]:
        return list(self._by_key.values())

    @classmethod
    def read(cls, lines: Iterable[str], remember: int = REMEMBERED_POSITIONS) -> KeptAnswers:
        """The answers of a snapshot, which has a `line` for each."""
        made = cls(remember)
        for line in lines:
            position, key, digest, answer = line.split("\t")
            kept = KeptAnswer(int(position), json.loads(key), bytes.fromhex(digest), answer)
            made._by_key[kept.key] = kept
        return made


def with_digests(lines: Iterable[str], digests: Mapping[int, bytes]) -> list[str]:
    """The lines of a snapshot of an earlier version, which has positions, keys and answers; digests are by position.

    An answer whose digest is not known is left out.
    """
    made = []
    for line in lines:
        position, *rest = line.split("\t")
        if len(rest) == 3:
            made.append(line)
        elif int(position) in digests:
            key, answer = rest
            digest = digests[int(position)][:DIGEST_BYTES]
            made.append(KeptAnswer(int(position), json.loads(key), digest, answer).line)
    return made


def _to_json(result: Result) -> dict[str, Any]:
    return {"done": result.value} if isinstance(result, Done) else {"refused": error_to_json(result.error)}


def _from_json(data: Mapping[str, Any]) -> Result:
    return Done(data["done"]) if "done" in data else CommandRefused(error_from_json(data["refused"]))


def error_to_json(error: PleromaError) -> dict[str, Any]:
    """All fields of an error. A value that JSON cannot express is described."""
    try:
        value = json.loads(canonical(error.value))
    except ControlError:
        value = pleroma.errors.shown(error.value)
    more = {"allowed": error.allowed} if isinstance(error, pleroma.errors.NotAllowed) else {}
    return {"class": type(error).__name__, "reason": error.reason, "field": error.field, "value": value, **more}


def error_from_json(data: Mapping[str, Any]) -> PleromaError:
    kind = getattr(pleroma.errors, data["class"], ControlError)
    error: PleromaError = kind.__new__(kind, data["reason"])  # whatever arguments the class takes
    error.__dict__.update({name: value for name, value in data.items() if name != "class"})
    return error
