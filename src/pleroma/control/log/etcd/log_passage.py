"""The beginning of a shared log that another log becomes, and the end of one that becomes another.

What arrives is written piece by piece and has no head until all of it is there; a mark says so, and nobody can open it
before. Each piece counts only while the mark is that of its own move, so a move that was overtaken by another one, or
is repeated after it was killed, does no harm. What leaves loses its head in the moment it ends.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn

from pleroma.control.log.durable_log import LogSnapshot, Position
from pleroma.control.log.etcd.etcd_gateway import EtcdGateway
from pleroma.control.log.etcd.format_mark import FormatMark, LogStage
from pleroma.control.log.etcd.log_keys import LogKeys
from pleroma.control.log.etcd.packed_batch import BATCH_NONCE_BYTES, LogHead, PackedBatch, PackedBodies
from pleroma.control.log.etcd.stored_parts import StoredParts
from pleroma.control.log.etcd.stored_snapshots import StoredSnapshots
from pleroma.control.log.etcd.transaction import (
    Json,
    TransactionAnswer,
    delete,
    find,
    is_absent,
    is_at,
    put,
    read_transaction,
    transaction,
)
from pleroma.errors import LogError

MAX_PIECE_ENTRIES = 512
MAX_PIECE_BYTES = 128 * 1024
"""Entries are packed together up to so many bytes; what is larger lies in parts."""


def find_move(gateway: EtcdGateway) -> FormatMark | None:
    """What is said of a log, whole or not; None if there is nothing of this name."""
    keys = LogKeys.of(gateway.address.name)
    found = gateway.look([find(keys.format), find(*keys.everything, limit=1, keys_only=True)]).found
    return None if not found[1].keys else FormatMark.read(found[0].only, gateway.address)


class LogArrival:
    """A log that is being moved into etcd, under a name of which there is nothing, or only a move that did not end."""

    def __init__(self, gateway: EtcdGateway, move: str) -> None:
        self._gateway = gateway
        self._keys = LogKeys.of(gateway.address.name)
        self._parts = StoredParts(gateway, self._keys)
        self._mark = FormatMark(LogStage.COMING, move)
        self._head = LogHead()
        self._revision = self._begin()

    def put_secret(self, name: str, secret: bytes) -> None:
        self._write([put(self._keys.secret(name), secret)])

    def put_snapshot(self, snapshot: LogSnapshot) -> None:
        snapshots = StoredSnapshots(self._gateway, self._keys, self._parts)
        self._write(snapshots.stored(snapshot.position, snapshot.state))

    def put_entries(self, entries: Iterable[tuple[Position, bytes]]) -> None:
        """All entries, in their order and at their places. They need not begin with the first."""
        for first, bodies in _pieces(entries):
            if self._head == LogHead():
                self._head = LogHead(Position(first - 1))
            nonce = secrets.token_bytes(BATCH_NONCE_BYTES)
            packed = PackedBodies.of(bodies)
            is_apart = len(packed.payload) > MAX_PIECE_BYTES
            batch = PackedBatch.after(self._head, nonce, packed, is_apart=is_apart)
            operations = [put(self._keys.batch(batch.last), batch.packed())]
            if is_apart:
                self._parts.write(nonce, packed.payload)
                operations += [put(self._keys.apart(batch.last), nonce), *self._parts.taken_up(nonce)]
            self._write(operations)
            self._head = batch.head

    def finish(self) -> None:
        """Make it a log: from now on it can be used."""
        whole = FormatMark(move=self._mark.move)
        self._write([put(self._keys.format, whole.packed()), put(self._keys.head, self._head.packed())], whole)

    def give_up(self) -> None:
        """Leave nothing of the move, or of one before it that did not end."""
        self._ask(transaction([is_at(self._keys.format, self._revision)], [delete(*self._keys.everything)]))

    def _begin(self) -> int:
        """Claim the name; the revision of our mark."""
        keys, place = self._keys, self._keys.format
        before = find_move(self._gateway)
        if before is None:
            conditions = [is_absent(*keys.everything)]
        elif before.stage is LogStage.COMING:
            found = self._gateway.look([find(place)]).found[0].only
            conditions = [is_at(place, found.mod_revision if found else 0), is_absent(keys.head)]
        else:
            self._refuse()
        start, end = keys.everything
        begun = [delete(start, place), delete(place + b"\0", end), put(place, self._mark.packed())]
        # repeated if the answer is lost: a second attempt finds the mark of the first
        answer = self._ask(transaction(conditions, [*begun, find(place)], [find(place)]))
        there = answer.found[0].only
        if there is None or there.value != self._mark.packed():
            self._refuse()
        return there.mod_revision

    def _write(self, operations: Sequence[Json], after: FormatMark | None = None) -> None:
        """What may be repeated, if our move is still the one; it leaves this mark, or the one that is there."""
        mine = [is_at(self._keys.format, self._revision)]
        answer = self._ask(transaction(mine, operations, [find(self._keys.format)]))
        if not answer.succeeded:
            there = answer.found[0].only
            if after is None or there is None or there.value != after.packed():
                reason = "another move to this log has begun meanwhile; nothing of this one is in force"
                raise LogError(reason, field=str(self._gateway.address))

    def _ask(self, asked: Json) -> TransactionAnswer:
        return read_transaction(self._gateway.ask("kv/txn", asked))

    def _refuse(self) -> NoReturn:
        reason = "there is something of this name already: a log is moved to a name of which there is nothing"
        raise LogError(reason, field=str(self._gateway.address), value=self._gateway.address.name)


def end_log(gateway: EtcdGateway, position: Position, move: str, to: str) -> None:
    """Let a log be elsewhere, if it still ends at this position: nobody can append to it any more, or open it."""
    keys = LogKeys.of(gateway.address.name)
    mark = FormatMark(LogStage.GONE, move, to)
    found = gateway.look([find(keys.head), find(keys.format)]).found
    head, before = found[0].only, found[1].only
    if head is None or before is None or LogHead.read(head.key, head.value).position != position:
        reason = "entries were appended meanwhile: stop all processes on this log first"
        raise LogError(reason, field=str(gateway.address), value=position)
    ended = transaction(
        [is_at(keys.head, head.mod_revision), is_at(keys.format, before.mod_revision)],
        [delete(keys.head), put(keys.format, mark.packed())],
        [find(keys.format)],
    )
    answer = read_transaction(gateway.ask("kv/txn", ended))
    there = None if answer.succeeded else answer.found[0].only
    if not answer.succeeded and (there is None or there.value != mark.packed()):
        reason = "entries were appended meanwhile: stop all processes on this log first"
        raise LogError(reason, field=str(gateway.address), value=position)


def _pieces(entries: Iterable[tuple[Position, bytes]]) -> Iterator[tuple[Position, list[bytes]]]:
    """Entries together, with the position of the first of each piece."""
    first, bodies, size = Position(0), list[bytes](), 0
    for position, body in entries:
        if bodies and (len(bodies) == MAX_PIECE_ENTRIES or size + len(body) > MAX_PIECE_BYTES):
            yield first, bodies
            bodies, size = [], 0
        if not bodies:
            first = position
        bodies.append(body)
        size += len(body)
    if bodies:
        yield first, bodies
