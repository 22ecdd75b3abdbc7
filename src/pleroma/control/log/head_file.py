"""A witness beside the log: how far it had come when the last entry was acknowledged, and who writes it.

A mark is written after each transaction, when that is durable, and is not synced itself: it may be older than the log,
never newer. A log that ends before its mark has lost entries. The mark also names the process that opened the log last:
another process that still has it open finds that out before it writes, also where a lock does not hold, as on some
network file systems or after somebody has removed the lock's file.
"""

from __future__ import annotations

import hashlib
import os
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pleroma.control.log.private_files import open_private
from pleroma.errors import LogLocked

CHAIN_BYTES = 16
_SLOT = struct.Struct(">8sQ16s64sQ16s8sI")
_MAGIC = b"PlrmHead"
_CHECKSUM_BYTES = 16
_SLOT_BYTES = 512
"""Of which a slot takes the first part: one write of a disk never concerns both slots."""


@dataclass(frozen=True, slots=True)
class HeadMark:
    """The log had this last entry, and the write-ahead log so many frames. `sequence` counts marks."""

    sequence: int = 0
    owner: bytes = bytes(16)
    """Drawn at random by the process that opened the log."""
    holder: str = ""
    """The same process, for people."""
    position: int = 0
    chain: bytes = bytes(CHAIN_BYTES)
    """Stands for all entries up to the position."""
    wal_salts: bytes = bytes(8)
    wal_frames: int = 0

    def pack(self) -> bytes:
        numbers = (_MAGIC, self.sequence, self.owner, self.holder.encode()[:64])
        slot = _SLOT.pack(*numbers, self.position, self.chain, self.wal_salts, self.wal_frames)
        return slot + hashlib.blake2b(slot, digest_size=_CHECKSUM_BYTES).digest()

    @classmethod
    def unpack(cls, data: bytes) -> HeadMark | None:
        """None if these bytes are not a whole mark."""
        slot, checksum = data[: _SLOT.size], data[_SLOT.size : _SLOT.size + _CHECKSUM_BYTES]
        if hashlib.blake2b(slot, digest_size=_CHECKSUM_BYTES).digest() != checksum:
            return None
        magic, sequence, owner, holder, position, chain, salts, frames = _SLOT.unpack(slot)
        text = holder.rstrip(b"\0").decode(errors="replace")
        return None if magic != _MAGIC else cls(sequence, owner, text, position, chain, salts, frames)


def read_mark(path: Path) -> HeadMark | None:
    """The newest mark in a file, if it has one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return _newest(descriptor)
    finally:
        os.close(descriptor)


class HeadFile:
    """The marks of one process, from `claim` to `close`."""

    def __init__(self, path: Path, *, reopen: bool) -> None:
        """`reopen` for each look: a network file system asks the server then, and otherwise what it remembers."""
        self._path = path
        self._reopen = reopen
        self._descriptor = open_private(path)
        self._mark = _newest(self._descriptor) or HeadMark()

    def claim(self, mark: HeadMark) -> None:
        """Be the one who writes from now on. `mark` has what the log holds."""
        holder = f"process {os.getpid()} on {socket.gethostname()}"
        self._mark = replace(mark, sequence=self._mark.sequence + 1, owner=os.urandom(16), holder=holder)
        for each in (
            self._mark,
            replace(self._mark, sequence=self._mark.sequence + 1),
        ):  # both slots: no older mark stays
            self._write(each)
        os.fsync(self._descriptor)

    def check(self) -> None:
        """Raise an error if another process has claimed the log since."""
        if self._reopen or os.fstat(self._descriptor).st_nlink == 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._descriptor = open_private(self._path)
        found = _newest(self._descriptor)
        if found is not None and found.owner != self._mark.owner:
            reason = f"{found.holder} has taken this log over; nothing was written"
            raise LogLocked(reason, field=str(self._path), value=found.holder)

    def note(self, position: int, chain: bytes, wal_salts: bytes, wal_frames: int) -> None:
        """Write down what is durable. If that fails, the mark stays older than the log, which is allowed."""
        mark = replace(self._mark, position=position, chain=chain, wal_salts=wal_salts, wal_frames=wal_frames)
        with suppress(OSError):
            self._write(replace(mark, sequence=self._mark.sequence + 1))

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, mark: HeadMark) -> None:
        os.pwrite(self._descriptor, mark.pack(), mark.sequence % 2 * _SLOT_BYTES)
        self._mark = mark


def _newest(descriptor: int) -> HeadMark | None:
    data = os.pread(descriptor, 2 * _SLOT_BYTES, 0)
    marks = [HeadMark.unpack(data[at : at + _SLOT_BYTES]) for at in (0, _SLOT_BYTES)]
    return max((mark for mark in marks if mark is not None), key=lambda mark: mark.sequence, default=None)
