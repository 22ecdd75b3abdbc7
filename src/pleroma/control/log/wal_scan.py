"""What a write-ahead log of SQLite holds, read before SQLite opens it (its format: sqlite.org/walformat.html).

SQLite uses frames up to the first one whose checksum is wrong, and takes the rest for a transaction that a crash cut
off. That is right after a crash and a silent loss after damage. The two can be told apart: a transaction is synced
before the next one begins, so a transaction that another one follows was complete once.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

_HEADER = struct.Struct(">8I")
_FRAME_HEADER_BYTES = 24
_CHUNK_FRAMES = 512
_MAGIC = 0x377F0682  # the lowest bit says that checksums are over big-endian words
_USUAL_PAGE_BYTES = 4096

Words = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class WalScan:
    """`frames` are those up to the last complete transaction. `salts` tell one filling of the file from the next."""

    salts: bytes = bytes(8)
    frames: int = 0
    is_torn: bool = False
    """There is more in the file than these frames: an interrupted transaction, or damage."""
    is_damaged: bool = False
    """Behind these frames lies a transaction that was complete once, since another one followed it."""


def scan_wal(path: Path) -> WalScan:
    """The scan of a file; that of an empty one if there is none."""
    try:
        return scan(path.read_bytes())
    except FileNotFoundError:
        return WalScan()


def scan(data: bytes) -> WalScan:
    if not any(data[: _HEADER.size]) and not any(data):  # a file that was made longer and never written
        return WalScan()
    if len(data) < _HEADER.size:
        return WalScan(is_torn=True)
    magic, _, page, _, _, _, *checksum = _HEADER.unpack_from(data)
    order = ">u4" if magic & 1 else "<u4"
    is_header = magic | 1 == _MAGIC | 1 and checksum == _header_checksum(data, order)
    frame = _FRAME_HEADER_BYTES + (page if is_header else _USUAL_PAGE_BYTES)
    count = (len(data) - _HEADER.size) // frame
    if count == 0:
        return WalScan(data[16:24] if is_header else bytes(8), is_torn=not is_header or len(data) > _HEADER.size)
    rows = np.frombuffer(data, np.uint8, count * frame, _HEADER.size).reshape(count, frame)
    numbers = rows[:, :_FRAME_HEADER_BYTES].copy().view(">u4").astype(np.uint32)
    salts = np.frombuffer(data, ">u4", 2, 16) if is_header else numbers[0, 2:4]
    stored = numbers[:, 4:6]
    before = np.vstack([np.array([checksum], np.uint32), stored[:-1]])
    ours = (numbers[:, 2:4] == salts).all(axis=1) & (numbers[:, 0] != 0)
    follows = ours & (_continued(rows, order, before) == stored).all(axis=1)
    commits = ours & (numbers[:, 1] != 0)
    valid = int(np.argmin(np.append(follows, False))) if is_header else 0
    ends = np.flatnonzero(commits[:valid])
    frames = int(ends[-1]) + 1 if len(ends) else 0
    # a frame that goes on from the checksum of a commit was written after that commit had been synced
    lost = commits[valid:-1] & follows[valid + 1 :]
    is_torn = not is_header or bool(ours[frames:].any())
    return WalScan(data[16:24] if is_header else bytes(8), frames, is_torn, bool(lost.any()))


def _header_checksum(data: bytes, order: str) -> list[int]:
    first = second = 0
    words = np.frombuffer(data, order, 6).tolist()
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return [first, second]


def _continued(rows: npt.NDArray[np.uint8], order: str, before: Words) -> Words:
    """The checksum of each frame, if `before` is the checksum of the frame before it.

    A pair of words (x, y) makes (a, b) into (a + b + x, a + 2b + x + y). That is linear, so the pairs of a frame count
    with powers of one matrix, and all frames are computed at once.
    """
    pairs = (rows.shape[1] - _FRAME_HEADER_BYTES + 8) // 8
    powers = _powers(pairs)
    sums = []
    for at in range(0, len(rows), _CHUNK_FRAMES):
        some = rows[at : at + _CHUNK_FRAMES]
        covered = np.hstack([some[:, :8], some[:, _FRAME_HEADER_BYTES:]])
        words = covered.view(order).astype(np.uint32)
        even, both = words[:, ::2], words[:, ::2] + words[:, 1::2]
        weights = powers[-2::-1]
        first = even @ weights[:, 0] + both @ weights[:, 1]
        second = even @ weights[:, 1] + both @ weights[:, 2]
        sums.append(np.column_stack([first, second]))
    own, (a, b, c) = np.vstack(sums), powers[-1]
    carried = np.column_stack([before[:, 0] * a + before[:, 1] * b, before[:, 0] * b + before[:, 1] * c])
    whole: Words = own + carried
    return whole


@cache
def _powers(pairs: int) -> Words:
    """The powers 0 to `pairs` of ((1, 1), (1, 2)), each as its three different numbers."""
    powers, (a, b, c) = [], (1, 0, 1)
    for _ in range(pairs + 1):
        powers.append((a, b, c))
        a, b, c = (a + b) & 0xFFFFFFFF, (b + c) & 0xFFFFFFFF, (b + 2 * c) & 0xFFFFFFFF
    return np.array(powers, np.uint32)
