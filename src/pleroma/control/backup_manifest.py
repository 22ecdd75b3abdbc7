"""What a backup says of itself: how far its log goes, and the size and digest of every file in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from pleroma.control.log.head_file import CHAIN_BYTES, HeadMark
from pleroma.errors import ForeignLog

BACKUP_FORMAT = 1


class FileDigest(NamedTuple):
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """`position` is the last entry of the log, `chain` stands for all entries up to it."""

    version: str
    """Of the program that made the backup."""
    made: str
    position: int
    chain: str
    files: Mapping[str, FileDigest]

    @property
    def end(self) -> HeadMark:
        return HeadMark(position=self.position, chain=bytes.fromhex(self.chain))

    def dumps(self) -> bytes:
        files = {name: each._asdict() for name, each in self.files.items()}
        return json.dumps({"format": BACKUP_FORMAT, **asdict(self), "files": files}, indent=1).encode()

    @classmethod
    def loads(cls, data: bytes) -> BackupManifest:
        try:
            given: dict[str, Any] = json.loads(data)
            if given.pop("format") != BACKUP_FORMAT:
                raise ForeignLog("this backup was made by a later version")
            files = {
                str(name): FileDigest(int(each["bytes"]), str(each["sha256"])) for name, each in given["files"].items()
            }
            made = cls(**given | {"files": files})
            if len(made.end.chain) != CHAIN_BYTES:
                raise ValueError("the chain is too short")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ForeignLog(f"this is no manifest of a backup: {error}") from None
        return made
