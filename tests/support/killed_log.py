"""The files of a log as a kill leaves them, and what damage does to them."""

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from pleroma.control import SqliteLog

WAL_HEADER_BYTES = 32
WAL_FRAME_BYTES = 24 + 4096
SUFFIXES = ("", "-wal", "-shm", ".head")


def copied(path: Path, folder: Path) -> Path:
    """The files as they are at this moment, somewhere else: what a process that is killed now leaves behind."""
    folder.mkdir()
    for suffix in SUFFIXES:
        if (source := Path(f"{path}{suffix}")).exists():
            shutil.copyfile(source, folder / f"{path.name}{suffix}")
    return folder / path.name


def stages(folder: Path) -> Iterator[tuple[str, Path, list[bytes]]]:
    """Logs killed at different moments of their lives, each with the bodies that were acknowledged.

    The state of a snapshot is all bodies up to it.
    """
    bodies: list[bytes] = []
    with SqliteLog.open(folder / "log") as log:

        def append(count: int, size: int = 300) -> None:
            for _ in range(count):
                body = b"%d " % len(bodies) + bytes(size)
                log.append([body])
                bodies.append(body)

        def stage(name: str) -> tuple[str, Path, list[bytes]]:
            return name, copied(folder / "log", folder / name), bodies[:]

        append(1)
        yield stage("one transaction")
        append(60)
        yield stage("nothing moved into the database yet")
        log.save_snapshot(len(bodies), b"\n".join(bodies))
        yield stage("a snapshot last")
        append(40)
        log.save_snapshot(len(bodies), b"\n".join(bodies))
        while log.compact(10):
            pass
        yield stage("compaction last")
        append(150, 4000)
        with log._file.reading() as connection:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        yield stage("everything moved into the database")
        append(20)
        yield stage("begun anew over older frames")
        log.checkpoint()
        append(3)
        yield stage("after a checkpoint")


def found(path: Path) -> list[bytes]:
    """All bodies that a restart finds. The database that it finds is intact."""
    with SqliteLog.open(path) as log:
        recovery = log.latest_snapshot()
        bodies = recovery.snapshot.state.split(b"\n") if recovery.snapshot else []
        assert len(bodies) == recovery.position
        bodies += [body for _, body in log.read(recovery.position)]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return bodies


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The content of a file after one of the things that bad disks, memories and people do."""
    kind = chance.choice(DAMAGES)
    return bytes(kind(bytearray(data), chance))


def _flip(data: bytearray, chance: random.Random) -> bytearray:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return data


def _flip_in_a_header(data: bytearray, chance: random.Random) -> bytearray:
    frame = chance.randrange(-1, (len(data) - WAL_HEADER_BYTES) // WAL_FRAME_BYTES)
    start = 0 if frame < 0 else WAL_HEADER_BYTES + frame * WAL_FRAME_BYTES
    data[start + chance.randrange(24)] ^= 1 << chance.randrange(8)
    return data


def _cut(data: bytearray, chance: random.Random) -> bytearray:
    return data[: chance.randrange(len(data))]


def _cut_between_frames(data: bytearray, chance: random.Random) -> bytearray:
    frames = (len(data) - WAL_HEADER_BYTES) // WAL_FRAME_BYTES
    return data[: WAL_HEADER_BYTES + chance.randrange(frames + 1) * WAL_FRAME_BYTES]


def _zero(data: bytearray, chance: random.Random) -> bytearray:
    start = chance.randrange(len(data)) // 512 * 512
    length = min(len(data) - start, 512 * chance.randrange(1, 32))
    data[start : start + length] = bytes(length)
    return data


def _noise(data: bytearray, chance: random.Random) -> bytearray:
    start = chance.randrange(len(data)) // 512 * 512
    length = min(len(data) - start, 512)
    data[start : start + length] = chance.randbytes(length)
    return data


def _swap_frames(data: bytearray, chance: random.Random) -> bytearray:
    frames = (len(data) - WAL_HEADER_BYTES) // WAL_FRAME_BYTES
    one, other = (WAL_HEADER_BYTES + chance.randrange(frames) * WAL_FRAME_BYTES for _ in range(2))
    first, second = data[one : one + WAL_FRAME_BYTES], data[other : other + WAL_FRAME_BYTES]
    data[one : one + WAL_FRAME_BYTES], data[other : other + WAL_FRAME_BYTES] = second, first
    return data


def _repeat_a_page(data: bytearray, chance: random.Random) -> bytearray:
    """A write that went to the wrong place."""
    one, other = (chance.randrange(len(data)) // 4096 * 4096 for _ in range(2))
    page = data[one : one + 4096]
    data[other : other + len(page)] = page
    return data


def _nothing_left(data: bytearray, chance: random.Random) -> bytearray:  # noqa: ARG001
    return bytearray()


DAMAGES: tuple[Callable[[bytearray, random.Random], bytearray], ...] = (
    _flip, _flip_in_a_header, _cut, _cut_between_frames, _zero, _noise, _swap_frames, _repeat_a_page, _nothing_left,
)  # fmt: skip
