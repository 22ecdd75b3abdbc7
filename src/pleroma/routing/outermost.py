"""The outermost of very many cells, and the cells inside each: one sort and one pass over arrays of packed dz."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pleroma.arrays.jit import compiled
from pleroma.arrays.types import Ints, Words
from pleroma.index.dz import Dz
from pleroma.index.dzset import PACKED_BYTES, unpacked


class Outermost(NamedTuple):
    """A dz that no other given dz covers, how often it was given, and the given dz inside it, packed."""

    dz: Dz
    times: int
    inside: bytes


def outermost(packed: bytes) -> Iterator[Outermost]:
    """The outermost dz, sorted by where they start; every given dz is one of these or inside one of these."""
    if not packed:
        return
    words = np.frombuffer(packed, ">u8").astype(np.uint64).reshape(-1, 2)
    order = np.lexsort((words[:, 1], words[:, 0]))
    words = words[order]
    data = words.astype(">u8").tobytes()
    starts, insides = _groups(words)
    ends = [*starts[1:].tolist(), len(words)]
    for start, inside, end in zip(starts.tolist(), insides.tolist(), ends, strict=True):
        dz = unpacked(data[start * PACKED_BYTES : (start + 1) * PACKED_BYTES])
        yield Outermost(dz, inside - start, data[inside * PACKED_BYTES : end * PACKED_BYTES])


@compiled
def _groups(words: Words) -> tuple[Ints, Ints]:
    """The row where each outermost dz begins, and the row where those inside it begin; a dz may repeat."""
    starts = np.empty(len(words), np.int64)
    insides = np.empty(len(words), np.int64)
    found = 0
    high_mask = low_mask = np.uint64(0)
    full = np.uint64(0xFFFFFFFFFFFFFFFF)
    for i in range(len(words)):
        if found:
            first = words[starts[found - 1]]
            if words[i, 0] == first[0] and words[i, 1] == first[1]:
                insides[found - 1] = i + 1
                continue
            if (words[i, 0] ^ first[0]) & high_mask == 0 and (words[i, 1] ^ first[1]) & low_mask == 0:
                continue
        starts[found] = i
        insides[found] = i + 1
        found += 1
        length = int(words[i, 1] & np.uint64(0xFFFF))
        high_mask = full if length >= 64 else full ^ full >> np.uint64(length)
        low_mask = full ^ full >> np.uint64(length - 64) if length > 64 else np.uint64(0)
    return starts[:found], insides[:found]
