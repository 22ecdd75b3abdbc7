"""Damage to the write-ahead log: all that was acknowledged is there, or the log is not opened. Never a silent loss."""

import os
import random
import shutil
from pathlib import Path

import pytest

from pleroma.control import SqliteLog
from pleroma.control.log.head_file import read_mark
from pleroma.control.log.log_examination import examine
from pleroma.control.log.log_repair import repair
from pleroma.control.log.wal_scan import scan, scan_wal
from pleroma.errors import LogDamaged, LogError
from support.killed_log import SUFFIXES, WAL_FRAME_BYTES, WAL_HEADER_BYTES, copied, damaged, found, stages

LONG = os.environ.get("PLEROMA_LONG") == "1"
DAMAGES_A_STAGE = 400 if LONG else 7
TORN = 300 if LONG else 12


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    return list(stages(tmp_path_factory.mktemp("stages")))


def again(path, folder):
    """The same files once more, to do something to."""
    return copied(path, folder)


def test_what_a_kill_leaves_is_opened_without_complaint(killed, tmp_path):
    for name, path, bodies in killed:
        assert examine(path).faults == (), name
        assert found(again(path, tmp_path / name)) == bodies, name


def test_damage_to_the_write_ahead_log_is_never_a_silent_loss(killed, tmp_path):
    chance = random.Random() if LONG else random.Random(11)
    refused = opened = 0
    for name, path, bodies in killed:
        for number in range(DAMAGES_A_STAGE):
            folder = tmp_path / f"{name} {number}"
            copy = again(path, folder)
            wal = Path(f"{copy}-wal")
            wal.write_bytes(damaged(wal.read_bytes(), chance))
            before = {
                each: (folder / each).read_bytes() for each in (copy.name, f"{copy.name}-wal", f"{copy.name}.head")
            }
            said = None
            try:
                left = found(copy)
            except LogError as error:
                said = str(error)
            if said is None:
                assert left == bodies, f"{folder}: a silent loss"
                opened += 1
            else:
                assert "`pleroma check" in said
                assert "\n" not in said
                now = {each: (folder / each).read_bytes() for each in before}
                assert now == before, "the evidence was changed"
                refused += 1
            shutil.rmtree(folder)
    assert refused > len(killed) * DAMAGES_A_STAGE // 2
    assert opened > 0  # a damaged frame of an earlier filling does not matter


def test_a_transaction_that_a_power_cut_tore_is_no_damage(tmp_path):
    """Of the last transaction, any part may have come to the disk, in any order; it was never acknowledged."""
    chance = random.Random() if LONG else random.Random(12)
    for number in range(TORN):
        folder = tmp_path / str(number)
        folder.mkdir()
        with SqliteLog.open(folder / "log") as log:
            for i in range(chance.randrange(1, 30)):
                log.append([b"%d" % i])
            bodies = [body for _, body in log.read()]
            before = copied(folder / "log", folder / "before")
            whole = Path(f"{before}-wal").read_bytes()
            log.append([chance.randbytes(chance.randrange(20_000)) for i in range(3)])
            data = (folder / "log-wal").read_bytes()
        torn = bytearray(data[: chance.choice([len(data), chance.randrange(len(whole), len(data))])])
        sectors = range(len(whole) // 512 + 1, len(torn) // 512)
        for sector in chance.sample(sectors, min(len(sectors), chance.randrange(1, 4))):
            stale = chance.choice([bytes(512), whole[512:1024], chance.randbytes(512)])
            torn[sector * 512 : (sector + 1) * 512] = stale[: len(torn) - sector * 512]
        Path(f"{before}-wal").write_bytes(torn)
        if scan(bytes(torn)).frames == scan(whole).frames:  # else the changed sectors held the same as before
            assert found(before) == bodies


def test_an_older_copy_of_the_log_is_noticed(killed, tmp_path):
    """Somebody brought a backup back, or the disk forgot its last hours."""
    (_, older, _), (_, newer, bodies) = killed[1], killed[4]
    copy = again(newer, tmp_path / "copy")
    for suffix in ("", "-wal", "-shm"):
        shutil.copyfile(f"{older}{suffix}", f"{copy}{suffix}")
    with pytest.raises(
        LogDamaged, match=f"190 acknowledged entries are missing: the log ends at 61, and {len(bodies)} "
    ):
        SqliteLog.open(copy)


def test_another_log_of_the_same_length_is_noticed(tmp_path):
    for name in ("mine", "other"):
        with SqliteLog.open(tmp_path / name / "log") as log:
            log.append([f"{name} {i}".encode() for i in range(4)] + [b"the same"])
    shutil.copyfile(tmp_path / "other" / "log", tmp_path / "mine" / "log")
    with pytest.raises(LogDamaged, match="entry 5 is not the one that was acknowledged: this is another log"):
        SqliteLog.open(tmp_path / "mine" / "log")


def test_a_database_that_is_gone_does_not_become_a_new_log(killed, tmp_path):
    copy = again(killed[1][1], tmp_path / "copy")
    copy.unlink()
    Path(f"{copy}-wal").unlink()
    with pytest.raises(LogDamaged, match="61 acknowledged entries are missing: the log ends at 0"):
        SqliteLog.open(copy)


def test_a_damaged_head_file_takes_nothing_away(killed, tmp_path):
    chance = random.Random(13)
    for number in range(20):
        name, path, bodies = killed[number % len(killed)]
        copy = again(path, tmp_path / str(number))
        head = Path(f"{copy}.head")
        head.write_bytes(damaged(head.read_bytes() + bytes(8000), chance))
        assert found(copy) == bodies, name


def test_without_a_head_file_damage_that_another_transaction_follows_is_noticed_all_the_same(killed, tmp_path):
    """As in the folder of an earlier version."""
    _, path, bodies = killed[1]
    whole = Path(f"{path}-wal").read_bytes()
    starts = range(WAL_HEADER_BYTES, len(whole), WAL_FRAME_BYTES)
    commits = [frame for frame, start in enumerate(starts) if any(whole[start + 4 : start + 8])]
    for frame in range(0, len(starts), 1 if LONG else 7):
        copy = again(path, tmp_path / str(frame))
        Path(f"{copy}.head").unlink()
        data = bytearray(whole)
        data[starts[frame] + 1000] ^= 1
        Path(f"{copy}-wal").write_bytes(data)
        if frame <= commits[-2]:
            with pytest.raises(LogDamaged, match="the write-ahead log is damaged behind frame"):
                SqliteLog.open(copy)
        else:
            assert found(copy) == bodies[:-1]


def test_a_checkpoint_that_was_cut_short_and_then_lost_its_write_ahead_log_is_noticed(tmp_path):
    """No entry is missing then, but pages of the database are from two times."""
    with SqliteLog.open(tmp_path / "log") as log:
        log.append([bytes(500) for i in range(200)])
        log.checkpoint()
        log.save_snapshot(200, bytes(100_000))
        copy = copied(tmp_path / "log", tmp_path / "copy")
    wal = Path(f"{copy}-wal").read_bytes()
    starts = list(range(WAL_HEADER_BYTES, len(wal), WAL_FRAME_BYTES))
    del starts[len(starts) // 2]  # a page in the middle of the snapshot did not come to the disk
    with copy.open("r+b") as database:
        for start in starts:
            database.seek((int.from_bytes(wal[start : start + 4], "big") - 1) * 4096)
            database.write(wal[start + 24 : start + WAL_FRAME_BYTES])
    assert examine(copy).faults == ()
    Path(f"{copy}-wal").unlink()
    with pytest.raises(LogDamaged, match="the database is damaged"):
        SqliteLog.open(copy)


def test_a_repair_goes_on_with_as_much_as_is_left_and_keeps_what_was_there(killed, tmp_path):
    chance = random.Random() if LONG else random.Random(14)
    repaired = hopeless = 0
    for name, path, bodies in killed:
        for number in range((DAMAGES_A_STAGE + 3) // 4):
            folder = tmp_path / f"{name} {number}"
            copy = again(path, folder)
            wal = Path(f"{copy}-wal")
            wal.write_bytes(damaged(wal.read_bytes(), chance))
            evidence = {suffix: Path(f"{copy}{suffix}").read_bytes() for suffix in SUFFIXES if suffix != "-shm"}
            if not examine(copy).faults:
                continue
            try:
                done = repair(copy)
            except LogDamaged:
                hopeless += 1
                continue
            left = found(copy)
            assert left == bodies[: done.position]
            assert done.lost == len(bodies) - done.position
            assert {suffix: (done.aside / f"log{suffix}").read_bytes() for suffix in evidence} == evidence
            assert len(list(done.aside.iterdir())) == len(evidence)
            with SqliteLog.open(copy) as log:
                assert log.append([b"on"]) == done.position + 1
            repaired += 1
    assert repaired > hopeless


def test_a_repair_loses_nothing_that_is_in_the_database_already(killed, tmp_path):
    _, path, bodies = next(each for each in killed if each[0] == "everything moved into the database")
    copy = again(path, tmp_path / "copy")
    wal = Path(f"{copy}-wal")
    wal.write_bytes(wal.read_bytes()[: WAL_HEADER_BYTES + 3 * WAL_FRAME_BYTES])
    with pytest.raises(LogDamaged):
        SqliteLog.open(copy)
    assert repair(copy).lost == 0
    assert found(copy) == bodies


def test_a_log_that_has_lost_nothing_is_not_repaired(killed, tmp_path):
    with pytest.raises(LogError, match="there is nothing to repair"):
        repair(again(killed[3][1], tmp_path / "copy"))


def test_a_snapshot_leaves_nothing_in_the_write_ahead_log(tmp_path):
    with SqliteLog.open(tmp_path / "log") as log:
        log.append([b"x"] * 50)
        log.save_snapshot(50, b"state")
        log.checkpoint()
        assert (tmp_path / "log-wal").stat().st_size == 0
        mark = read_mark(tmp_path / "log.head")
        assert (mark.position, mark.wal_frames) == (50, 0)
        log.append([b"y"])
        assert read_mark(tmp_path / "log.head").wal_frames == scan_wal(tmp_path / "log-wal").frames > 0


def test_frames_of_an_earlier_filling_are_told_from_those_of_this_one(killed):
    _, path, _ = next(each for each in killed if each[0] == "begun anew over older frames")
    data = Path(f"{path}-wal").read_bytes()
    found_here = scan(data)
    assert found_here.frames < (len(data) - WAL_HEADER_BYTES) // WAL_FRAME_BYTES
    assert not found_here.is_torn
