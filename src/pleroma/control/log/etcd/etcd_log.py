"""The log of several processes, in etcd: an entry is durable when a majority of its members has it on disk.

An append is one transaction: it compares the head of the log with what this writer knows, and puts the entries and the
new head. A writer that was overtaken tries again behind the others. Where the answer was lost, the batch is looked for
by its nonce in the only place where it can be: an attempt is bound to one revision of the head, and can succeed only
while the head has that revision.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from pleroma.control.log.durable_log import LOG_START, Position, Recovery, check_body
from pleroma.control.log.etcd.etcd_address import EtcdAddress
from pleroma.control.log.etcd.etcd_gateway import EtcdGateway, closed_error
from pleroma.control.log.etcd.etcd_lease import Office
from pleroma.control.log.etcd.etcd_upkeep import EtcdUpkeep
from pleroma.control.log.etcd.format_mark import FormatMark
from pleroma.control.log.etcd.key_watch import IDLE_WATCH_SECONDS, KeyWatch
from pleroma.control.log.etcd.log_keys import LogKeys, position_of
from pleroma.control.log.etcd.packed_batch import BATCH_NONCE_BYTES, NO_CHAIN, LogHead, PackedBatch, PackedBodies
from pleroma.control.log.etcd.stored_parts import StoredParts
from pleroma.control.log.etcd.stored_snapshots import StoredSnapshots
from pleroma.control.log.etcd.transaction import (
    FoundKeys,
    StoredKey,
    delete,
    find,
    is_absent,
    is_at,
    put,
    read_transaction,
    transaction,
)
from pleroma.errors import DiskFull, EntriesDropped, LogDamaged, LogError, LogUnclear

MAX_APPEND_SECONDS = 15.0
"""After so long an append is given up, and says whether that is known to be without effect."""
MAX_INLINE_BYTES = 128 * 1024
"""A larger batch lies in parts, so that a page of batches is small enough to be read at once."""
_BATCHES_PER_PAGE = 64
_PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class _KnownHead:
    """The head as it was at a revision of its key."""

    head: LogHead
    revision: int


@dataclass(frozen=True, slots=True)
class _Page:
    head: _KnownHead
    batches: FoundKeys


class EtcdLog:
    """Use `EtcdLog.open`. Any thread may call its methods; appends of one process wait for each other."""

    is_shared = True

    def __init__(self, gateway: EtcdGateway, *, idle_seconds: float = IDLE_WATCH_SECONDS) -> None:
        self.address = gateway.address
        self.gateway = gateway
        self.keys = LogKeys.of(gateway.address.name)
        self._parts = StoredParts(gateway, self.keys)
        self._snapshots = StoredSnapshots(gateway, self.keys, self._parts)
        self._upkeep = EtcdUpkeep(gateway, self.keys, self._parts)
        self._writer = secrets.token_bytes(BATCH_NONCE_BYTES // 2)
        self._appends = 0
        self._writing = threading.Lock()
        self._watching = threading.Lock()
        self._watch: KeyWatch | None = None
        self._idle_seconds = idle_seconds
        self._is_closed = False
        self._known = self._begin()

    @classmethod
    def open(cls, url: str | EtcdAddress) -> Self:
        """Open the log, or begin one; others may have it open, too."""
        gateway = EtcdGateway(url if isinstance(url, EtcdAddress) else EtcdAddress.parse(url))
        try:
            return cls(gateway)
        except BaseException:
            gateway.close()
            raise

    def close(self) -> None:
        with self._watching:
            self._is_closed = True
            watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()
        self.gateway.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def first(self) -> Position:
        """The position of the first entry that is kept."""
        found = self.gateway.find(*self.keys.all_of(b"e"), limit=1).only
        return self._batch(found).first if found is not None else LOG_START

    @property
    def head(self) -> Position:
        """The position of the last entry."""
        return self._read_head().head.position

    @property
    def following_failure(self) -> LogError | None:
        """Why what others append cannot be heard of at the moment, as far as somebody has waited for it."""
        watch = self._watch
        return None if watch is None else watch.failure

    def append(self, bodies: Sequence[bytes]) -> Position:
        """Append entries one behind the other, durably, all or none; returns the position of the first.

        After LogUnclear it is not known whether they are in the log, and they may turn up in `read` later. After any
        other error they are not, and will not be.
        """
        for body in bodies:
            check_body(body)
        if not bodies:
            return Position(self.head + 1)
        packed = PackedBodies.of(bodies)
        with self._writing:
            try:
                return self._append(packed)
            except DiskFull:
                if not self._upkeep.make_room():
                    raise
                return self._append(packed)

    def _append(self, packed: PackedBodies) -> Position:
        self._appends += 1
        nonce = self._writer + self._appends.to_bytes(BATCH_NONCE_BYTES // 2)
        is_apart = len(packed.payload) > MAX_INLINE_BYTES
        if is_apart:
            self._parts.write(nonce, packed.payload)
        limit = time.monotonic() + MAX_APPEND_SECONDS
        known = self._known
        unclear: LogUnclear | None = None  # an attempt at the known revision may still succeed
        while True:
            batch = PackedBatch.after(known.head, nonce, packed, is_apart=is_apart)
            refusal: LogError | None = None
            try:
                seen = self._try(batch, known)
            except LogUnclear as error:
                unclear, seen = error, self._look_again(packed.count, error)
            except LogError as error:
                if unclear is None:
                    raise
                refusal, seen = error, self._look_again(packed.count, unclear)
            has_moved = seen.revision != known.revision
            if seen.head.nonce == nonce or (unclear is not None and has_moved and self._has_landed(batch)):
                self._learn(seen)
                return batch.first
            if has_moved:
                known, unclear = seen, None
                if refusal is not None:
                    raise refusal
            if time.monotonic() > limit:
                raise self._given_up(packed.count, unclear)
            if unclear is not None:
                time.sleep(_PAUSE_SECONDS)

    def _try(self, batch: PackedBatch, known: _KnownHead) -> _KnownHead:
        """One attempt; returns the head as it is then."""
        head, last = self.keys.head, batch.last
        compare = [is_at(head, known.revision)]
        success = [put(self.keys.batch(last), batch.packed()), put(head, batch.head.packed())]
        if batch.is_apart:
            compare += self._parts.conditions(batch.nonce)
            success += [put(self.keys.apart(last), batch.nonce), *self._parts.taken_up(batch.nonce)]
        answer = self.gateway.transact(transaction(compare, success, [find(head)]))
        return _KnownHead(batch.head, answer.revision) if answer.succeeded else self._head_of(answer.found[0].only)

    def _look_again(self, count: int, unclear: LogUnclear) -> _KnownHead:
        try:
            return self._read_head()
        except LogError:
            raise self._given_up(count, unclear) from None

    def _has_landed(self, batch: PackedBatch) -> bool:
        """Whether a batch is in the log after all, now that the head has moved on."""
        try:
            found = self.gateway.find(*self.keys.batches_after(batch.first - 1), limit=1).only
        except LogError as error:
            raise self._given_up(batch.count, error) from None
        there = self._batch(found)
        if there.first > batch.first:
            dropped = LogError("entries were dropped meanwhile", field=str(self.address))
            raise self._given_up(batch.count, dropped)
        return there.nonce == batch.nonce

    def _given_up(self, count: int, unclear: LogError | None) -> LogError:
        if unclear is None:
            reason = f"other writers were faster for {MAX_APPEND_SECONDS:g} seconds; nothing was appended"
            return LogError(reason, field=str(self.address), value=count)
        reason = f"whether {count} entries are in the log is not known: {unclear.reason}"
        return LogUnclear(reason, field=unclear.field, value=count)

    def read(self, after: int = LOG_START) -> Iterator[tuple[Position, bytes]]:
        """The entries after a position, in order. Few at a time are in memory, and others may append meanwhile."""
        page = self._page(after)
        head = page.head.head.position
        if not LOG_START <= after <= head:
            raise LogError(f"the log ends at {head}", field="after", value=after)
        if page.batches.keys and self._batch(page.batches.keys[0]).first > after + 1:
            self._explain_gap(after, "")
        return self._read(Position(after), page)

    def _read(self, after: Position, page: _Page) -> Iterator[tuple[Position, bytes]]:
        chain = NO_CHAIN if after == LOG_START else None
        while True:
            for key in page.batches.keys:
                batch = self._batch(key)
                if batch.first > after + 1:
                    self._explain_gap(after, " by now")
                if chain is not None and not batch.follows(chain):
                    raise self._damaged(f"entry {batch.first} does not follow the one before it", batch.first)
                bodies = batch.bodies(key.key, self._payload(batch, after))
                for position, body in enumerate(bodies, batch.first):
                    if position > after:
                        yield Position(position), body
                after, chain = batch.last, batch.chain
            if not page.batches.more:
                head = page.head.head
                if after != head.position or (chain is not None and chain != head.chain):
                    raise self._damaged(f"entry {after + 1} is missing", after + 1)
                if self._known.head.position <= after:
                    return
            page = self._page(after)

    def _page(self, after: int) -> _Page:
        batches = find(*self.keys.batches_after(after), limit=_BATCHES_PER_PAGE)
        answer = self.gateway.look([find(self.keys.head), batches])
        known = self._head_of(answer.found[0].only)
        self._learn(known)
        return _Page(known, answer.found[1])

    def _payload(self, batch: PackedBatch, after: Position) -> bytes:
        if not batch.is_apart:
            return batch.payload
        payload = self._parts.read(batch.nonce, batch.size)
        if payload is None:
            self._explain_gap(after, " by now")
            raise self._damaged(f"entry {batch.first} is not whole", batch.first)
        return payload

    def _explain_gap(self, after: int, since: str) -> None:
        """Raise EntriesDropped if compaction has dropped the next entry, LogDamaged if it is missing otherwise."""
        first = self.first
        if first > after + 1:
            raise EntriesDropped(f"the log begins at {first}{since}", field="after", value=after)
        if self._batch(self.gateway.find(*self.keys.batches_after(after), limit=1).only).first > after + 1:
            raise self._damaged(f"entry {after + 1} is missing", after + 1)

    def wait_beyond(self, position: Position, seconds: float) -> Position:
        """Wait until the log goes beyond a position, at most so long; how far it goes. Closing the log ends it."""
        with self._watching:
            if self._is_closed:
                raise closed_error(self.address)
            if self._watch is None:
                self._watch = KeyWatch(self.gateway, self.keys.head, idle_seconds=self._idle_seconds)
            watch = self._watch
        watch.wait(lambda key: self._goes_beyond(key, position), seconds)
        return self._known.head.position

    def _goes_beyond(self, key: StoredKey | None, position: Position) -> bool:
        if key is None:
            return False
        known = self._head_of(key)
        self._learn(known)
        return known.head.position > position

    def save_snapshot(self, position: int, state: bytes) -> None:
        """Keep the state after the entry at this position, durably, and the newest intact snapshot before it."""
        try:
            self._snapshots.save(position, state)
        except DiskFull:
            while self.compact():
                pass
            self.checkpoint()
            self._snapshots.save(position, state)

    def latest_snapshot(self) -> Recovery:
        """The newest snapshot that is intact, if there is one."""
        return self._snapshots.latest()

    def compact(self, max_rows: int = 1000) -> int:
        """Drop some batches before the older of two snapshots, and tell of how many entries: 0 means that none is left.

        A batch that the snapshot cuts in two is kept.
        """
        kept = self._snapshots.positions()
        found = self.gateway.find(*self.keys.all_of(b"e"), limit=1).only
        if len(kept) < 2 or found is None:
            return 0
        batch, older = self._batch(found), kept[-1]
        if batch.last > older:
            return 0
        bound = max(batch.last, min(older, batch.first + max_rows - 1))
        self.gateway.ask("kv/txn", {"success": [self._dropping(b"e", bound), self._dropping(b"r", bound)]})
        return self.first - batch.first

    def _dropping(self, kind: bytes, bound: int) -> dict[str, object]:
        start, _ = self.keys.all_of(kind)
        return delete(start, start + b"%016x" % (bound + 1))

    def checkpoint(self) -> None:
        """Let etcd forget what was dropped: revisions, parts, and room that its files have to spare."""
        self._upkeep.run()

    def shared_secret(self, name: str, make: Callable[[], bytes]) -> bytes:
        """A secret that all processes on this log share: the first that asks for it makes it."""
        key = self.keys.secret(name)
        found = self.gateway.find(key).only
        if found is None:
            made = transaction([is_absent(key)], [put(key, make()), find(key)], [find(key)])
            found = read_transaction(self.gateway.ask("kv/txn", made)).found[0].only
        if found is None:
            raise self._damaged(f"the secret {name} vanished", name)
        return found.value

    def known_secret(self, name: str) -> bytes | None:
        """A secret that somebody has made already."""
        found = self.gateway.find(self.keys.secret(name)).only
        return None if found is None else found.value

    def office(self, name: str) -> Office:
        """An office that one of the processes on this log holds at a time."""
        return Office(self.gateway, self.keys.office(name))

    def _begin(self) -> _KnownHead:
        """Begin the log where there is none; the head that it has."""
        both = [find(self.keys.format), find(self.keys.head)]
        begun = [put(self.keys.format, FormatMark().packed()), put(self.keys.head, LogHead().packed()), *both]
        # repeated if the answer is lost: a second attempt finds what the first has begun
        asked = transaction([is_absent(*self.keys.everything)], begun, both)
        answer = read_transaction(self.gateway.ask("kv/txn", asked))
        FormatMark.read(answer.found[0].only, self.address).check(self.address)
        return self._head_of(answer.found[1].only)

    def _read_head(self) -> _KnownHead:
        return self._head_of(self.gateway.find(self.keys.head).only)

    def _head_of(self, found: StoredKey | None) -> _KnownHead:
        if found is None:
            FormatMark.read(self.gateway.find(self.keys.format).only, self.address).check(self.address)
            raise self._damaged("the head of the log is missing", "head")
        return _KnownHead(LogHead.read(found.key, found.value), found.mod_revision)

    def _batch(self, found: StoredKey | None) -> PackedBatch:
        last = position_of(found.key) if found is not None else None
        if found is None or last is None:
            name = found.key.decode(errors="replace") if found is not None else "a batch"
            raise self._damaged(f"{name} is not a batch of a log", name)
        return PackedBatch.read(found.key, found.value, last)

    def _learn(self, seen: _KnownHead) -> None:
        if seen.revision > self._known.revision:
            self._known = seen

    def _damaged(self, reason: str, value: object) -> LogDamaged:
        return LogDamaged(reason, field=str(self.address), value=value)
