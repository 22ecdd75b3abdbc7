"""The keys of a log in etcd. All begin with the name of the log, and sort by position where they have one.

format      marks the place as a log, and says in which format
head        the last position; every append compares it and writes it
e/LAST      a batch of entries, by the position of its last
r/LAST      the nonce of that batch, if its payload lies in parts
b/ID/N      a part of a large batch or of a snapshot
w/ID        somebody is writing these parts; ends with the lease of the writer
s/POSITION  a snapshot: which parts it has
k/NAME      a secret that all processes share
o/NAME      who holds an office
"""

from __future__ import annotations

from dataclasses import dataclass

from pleroma.control.log.etcd.transaction import after_prefix


@dataclass(frozen=True, slots=True)
class LogKeys:
    root: bytes

    @classmethod
    def of(cls, name: str) -> LogKeys:
        return cls(f"pleroma/{name}/".encode())

    @property
    def everything(self) -> tuple[bytes, bytes]:
        return self.root, after_prefix(self.root)

    @property
    def format(self) -> bytes:
        return self.root + b"format"

    @property
    def head(self) -> bytes:
        return self.root + b"head"

    def all_of(self, kind: bytes) -> tuple[bytes, bytes]:
        """The range of all keys of a kind: e, r, b, w, s, k or o."""
        prefix = self.root + kind + b"/"
        return prefix, after_prefix(prefix)

    def batch(self, last: int) -> bytes:
        return self.root + b"e/%016x" % last

    def batches_after(self, position: int) -> tuple[bytes, bytes]:
        """The range of all batches that end behind a position."""
        return self.batch(position + 1), self.all_of(b"e")[1]

    def apart(self, last: int) -> bytes:
        return self.root + b"r/%016x" % last

    def part(self, id: bytes, number: int) -> bytes:
        return self.root + b"b/%s/%08x" % (id.hex().encode(), number)

    def parts(self, id: bytes) -> tuple[bytes, bytes]:
        return self.all_of(b"b/" + id.hex().encode())

    def writing(self, id: bytes) -> bytes:
        return self.root + b"w/" + id.hex().encode()

    def snapshot(self, position: int) -> bytes:
        return self.root + b"s/%016x" % position

    def secret(self, name: str) -> bytes:
        return self.root + b"k/" + name.encode()

    def office(self, name: str) -> bytes:
        return self.root + b"o/" + name.encode()


def position_of(key: bytes) -> int | None:
    """The position that a key ends with, if it does."""
    last = key.rpartition(b"/")[2]
    try:
        return int(last, 16) if len(last) == 16 else None
    except ValueError:
        return None
