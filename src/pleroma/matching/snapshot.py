"""An engine's subscriptions and structures in one file, ready to be read where they lie.

The file begins with a magic word, a version and a header (JSON) that names every array with its place and checksum; the
arrays follow, each at a multiple of 64 bytes. Loading maps the file into memory and reads none of it but the header, so
that a million subscriptions are there at once; `verify` reads it all. A file appears under its name when it is whole.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pleroma.errors import MatchingError
from pleroma.matching.choice import AUTOMATIC, STRUCTURES
from pleroma.matching.constraint_table import Table
from pleroma.matching.engine import Engine
from pleroma.matching.engine_part import Part
from pleroma.matching.scan import Scan

MAGIC = b"PLEROMAM"
VERSION = 1
PREFIX = struct.Struct("<8sIIQ")
"""Magic word, version, checksum of the header, length of the header."""
ALIGNED = 64


def save(engine: Engine, path: Path) -> None:
    parts, newcomers = engine.standing
    late = newcomers.table()
    if len(late):
        parts += (Part(Scan.build(late), "newcomers"),)
    listed = []
    arrays: list[NDArray[Any]] = []
    offset = 0
    for part in parts:
        groups = {"table": part.structure.table.arrays(), "structure": part.structure.arrays(), "": {"dead": part.dead}}
        described: dict[str, Any] = {"structure": part.structure.name, "why": part.why, "arrays": []}
        for group, members in groups.items():
            for name, array in members.items():
                flat = np.ascontiguousarray(array)
                described["arrays"].append(
                    {
                        "group": group,
                        "name": name,
                        "dtype": flat.dtype.str,
                        "shape": list(flat.shape),
                        "offset": offset,
                        "crc32": zlib.crc32(flat.reshape(-1).view(np.uint8).data),
                    }
                )
                arrays.append(flat)
                offset += -(-flat.nbytes // ALIGNED) * ALIGNED
        listed.append(described)
    header = json.dumps({"parts": listed, "bytes": offset}).encode()
    prefix = PREFIX.pack(MAGIC, VERSION, zlib.crc32(header), len(header))
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.write(prefix + header)
            file.write(bytes(-file.tell() % ALIGNED))
            for flat in arrays:
                file.write(flat.reshape(-1).view(np.uint8).data)
                file.write(bytes(-flat.nbytes % ALIGNED))
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def load(path: Path, structure: str = AUTOMATIC, verify: bool = False) -> Engine:
    """An engine that reads the file where it lies; what comes and goes afterwards does not change it."""
    with path.open("rb") as file:
        prefix = file.read(PREFIX.size)
        if len(prefix) < PREFIX.size or not prefix.startswith(MAGIC):
            raise MatchingError("is no snapshot of a matcher", field=path.name)
        _, version, checksum, length = PREFIX.unpack(prefix)
        if version != VERSION:
            reason = f"is of version {version}, and this program reads version {VERSION}"
            raise MatchingError(reason, field=path.name, value=version)
        header = file.read(length)
        if len(header) != length or zlib.crc32(header) != checksum:
            raise MatchingError("its header is damaged", field=path.name)
        told = json.loads(header)
        start = -(-(PREFIX.size + length) // ALIGNED) * ALIGNED
        if os.fstat(file.fileno()).st_size != start + told["bytes"]:
            raise MatchingError("is shorter or longer than its header says", field=path.name)
        # never written to, yet of the kind that kernels are compiled for
        whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    parts = [_part(whole, start, described, path.name, verify) for described in told["parts"]]
    return Engine(structure, parts=sorted(parts, key=len, reverse=True))


def _part(whole: mmap.mmap, start: int, described: dict[str, Any], name: str, verify: bool) -> Part:
    groups: dict[str, dict[str, NDArray[Any]]] = {"table": {}, "structure": {}, "": {}}
    for each in described["arrays"]:
        count = int(np.prod(each["shape"]))
        array = np.frombuffer(whole, each["dtype"], count, start + each["offset"])
        if verify and zlib.crc32(array.view(np.uint8).data) != each["crc32"]:
            raise MatchingError(f"its array {each['name']} is damaged", field=name, value=each["name"])
        groups[each["group"]][each["name"]] = array.reshape(each["shape"])
    table = Table(**groups["table"])
    if described["structure"] not in STRUCTURES:
        raise MatchingError(f"has an unknown structure {described['structure']!r}", field=name)
    made = STRUCTURES[described["structure"]].restore(table, groups["structure"])
    return Part(made, described["why"], groups[""]["dead"].copy())
