"""The folder of a controller: nobody else reads it, nobody leads it astray, and one process writes to it."""

import errno
import os
import sqlite3
import stat
import struct
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from structlog.testing import capture_logs

from pleroma.control import SqliteLog
from pleroma.control.log.head_file import read_mark
from pleroma.control.log.mount_kind import is_shared, mount_kind
from pleroma.control.log.private_files import exposures, make_private
from pleroma.errors import LogLocked, PleromaError, SetupError
from support.killed_log import found
from support.programs import environment
from support.service.process import ServiceProcess

NOBODY = 65534
SECOND = """
import sys
from pleroma.control import SqliteLog
log = SqliteLog.open(sys.argv[1])
log.append([b"second"])
print(flush=True)
input()
log.append([b"third"])
"""


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "state"
    made.mkdir()
    made.chmod(0o755)
    return made


def test_a_service_keeps_others_out_of_a_folder_that_its_user_made(folder):
    for name in ("control.sqlite.lock", "old.key", "wiring.json", "notes"):
        (folder / name).touch(0o644)
    (folder / "wiring.json").write_text('{"switches": [], "hosts": [], "links": []}')
    with ServiceProcess(folder) as service:
        others = {each.name for each in folder.iterdir() if mode(each) & 0o077}
        assert others == {"notes"}, "only a file that is none of the service's"
        assert mode(folder) == 0o700
        assert {"control.sqlite", "control.sqlite-wal", "control.sqlite-shm", "admin.token"} <= {
            each.name for each in folder.iterdir()
        }
        assert "others could read" in service.log()
        assert exposures(folder) == []


def test_a_log_is_private_whatever_the_umask_and_the_folder(folder):
    with SqliteLog.open(folder / "log"):
        assert {mode(each) for each in folder.iterdir()} == {0o600}


def test_a_folder_in_which_others_write_is_refused_and_left_alone(folder):
    folder.chmod(0o777)
    (folder / "control.sqlite").touch()
    with pytest.raises(SetupError, match=r"others can write in it: .* `chmod 700 "):
        make_private(folder)
    assert mode(folder) == 0o777
    (folder / "control.sqlite").unlink()
    assert make_private(folder) == [str(folder)]  # nobody has put anything there
    assert mode(folder) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away: foreign folders were NOT tested")
def test_what_belongs_to_somebody_else_is_refused(folder):
    (folder / "control.sqlite").touch()
    os.chown(folder / "control.sqlite", NOBODY, NOBODY)
    with pytest.raises(SetupError, match=r"control\.sqlite belongs to user 65534, and this is user 0"):
        make_private(folder)
    (folder / "control.sqlite").unlink()
    os.chown(folder, NOBODY, NOBODY)
    with pytest.raises(SetupError, match="belongs to user 65534, and this is user 0"):
        make_private(folder)
    assert mode(folder) == 0o755


@pytest.mark.parametrize("name", ["control.sqlite", "control.sqlite.lock", "control.sqlite.head", "control.sqlite-wal"])
def test_a_symbolic_link_in_the_folder_leads_nowhere(folder, tmp_path, name):
    target = tmp_path / "precious"
    target.write_bytes(b"precious")
    target.chmod(0o644)
    (folder / name).symlink_to(target)
    with pytest.raises(SetupError, match=f"{name} is a symbolic link"):
        make_private(folder)
    with suppress(PleromaError):  # SQLite removes what lies beside an empty database
        SqliteLog.open(folder / "control.sqlite").close()
    assert target.read_bytes() == b"precious"
    assert mode(target) == 0o644


def test_a_link_from_elsewhere_to_the_folder_is_the_folder(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    make_private(tmp_path / "link")
    assert mode(folder) == 0o700


def test_a_second_controller_that_does_not_see_the_lock_takes_over_and_the_first_writes_nothing_more(folder):
    """As on a network file system without locks, or after somebody removed the lock's file."""
    path = folder / "log"
    first = SqliteLog.open(path)
    assert first.append([b"first"]) == 1
    Path(f"{path}.lock").unlink()
    command = [sys.executable, "-c", SECOND, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as second:
        second.stdout.readline()
        for write in (
            lambda: first.append([b"lost"]),
            lambda: first.save_snapshot(1, b""),
            first.compact,
            first.checkpoint,
        ):
            with pytest.raises(LogLocked, match=f"process {second.pid} on .* has taken this log over"):
                write()
        first.close()  # and does not take the other's write-ahead log along
        second.stdin.write(b"\n")
        second.stdin.close()
        assert second.wait() == 0
    assert found(path) == [b"first", b"second", b"third"]


def test_a_head_file_that_somebody_removes_is_made_again(folder):
    path = folder / "log"
    with SqliteLog.open(path) as log:
        Path(f"{path}.head").unlink()
        log.append([b"a"])
        log.append([b"b"])
        assert read_mark(Path(f"{path}.head")).position == 2


def test_an_entry_that_is_durable_is_acknowledged_though_it_cannot_be_noted(folder, monkeypatch):
    """Else the log would hold an entry that nobody applied."""
    with SqliteLog.open(folder / "log") as log:
        with monkeypatch.context() as failing:
            failing.setattr("pleroma.control.log.head_file.os.pwrite", _fails)
            failing.setattr("pleroma.control.log.sqlite_file.last_entry", _fails)
            assert log.append([b"a"]) == 1
        assert log.append([b"b"]) == 2
    assert found(folder / "log") == [b"a", b"b"]


def _fails(*_):
    raise OSError(errno.EIO, "Input/output error")


def test_a_start_without_a_head_file_says_what_cannot_be_told(folder):
    path = folder / "log"
    for warnings in (0, 0, 1):
        if warnings:
            Path(f"{path}.head").unlink()
        with capture_logs() as said, SqliteLog.open(path) as log:
            log.append([b"a"])
        assert [each["event"].partition(":")[0] for each in said] == ["there is no head file"] * warnings


def test_network_file_systems_are_known_by_the_list_of_mounts(tmp_path):
    mounts = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:30 / /srv rw - nfs4 server:/srv rw,vers=4.2
31 30 0:31 / /srv/a\\040disk rw - xfs /dev/sdb rw
32 22 0:32 / /home/ann/remote rw - fuse.sshfs ann@host: rw
33 22 0:33 / /mnt rw - cifs //server/share rw
"""
    kinds = {
        "/var/lib/pleroma": "ext4",
        "/srv/pleroma": "nfs4",
        "/srv/a disk/pleroma": "xfs",
        "/srvother": "ext4",
        "/home/ann/remote": "fuse.sshfs",
        "/mnt/x": "cifs",
    }
    assert {path: mount_kind(Path(path), mounts) for path in kinds} == kinds
    assert {kind for kind in kinds.values() if is_shared(kind)} == {"nfs4", "fuse.sshfs", "cifs"}
    assert mount_kind(Path("/x"), "") is None
    assert not is_shared(None)
    assert mount_kind(tmp_path) is not None


def test_on_a_network_file_system_the_head_is_asked_for_anew_each_time(folder, monkeypatch):
    monkeypatch.setattr("pleroma.control.log.sqlite_file.mount_kind", lambda _: "nfs4")
    with SqliteLog.open(folder / "log") as log:
        head = folder / "log.head"
        log.append([b"a"])
        mark = read_mark(head)
        copy = head.read_bytes()
        head.unlink()
        head.write_bytes(copy)  # another file of the same name, as a server may show it
        log.append([b"b"])
        assert read_mark(head).position == mark.position + 1


def test_a_log_of_the_format_before_is_upgraded(folder):
    with SqliteLog.open(folder / "log") as log:
        log.append([b"a", b"b"])
    Path(f"{folder / 'log'}.head").unlink()
    with closing(sqlite3.connect(folder / "log")) as old:
        old.execute("ALTER TABLE entries DROP COLUMN chain")
        old.execute("PRAGMA user_version = 1")
        old.commit()
    for bodies in ([b"a", b"b"], [b"a", b"b", b"c"], [b"a", b"b", b"c", b"c"]):
        with SqliteLog.open(folder / "log") as log:
            assert [body for _, body in log.read()] == bodies
            log.append([b"c"])


def test_a_lake_is_shared_by_an_access_list_though_the_umask_is_strict(tmp_path):
    """A default access list of the folder counts instead of the umask: a Spark cluster of another user can read."""
    lake = tmp_path / "lake"
    lake.mkdir(mode=0o700)
    entries = [(1, 7, -1), (2, 5, NOBODY), (4, 0, -1), (16, 5, -1), (32, 0, -1)]
    rights = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *each) for each in entries)
    try:
        os.setxattr(lake, "system.posix_acl_default", rights)
    except OSError:
        pytest.skip("no access lists on this file system: sharing a lake was NOT tested")
    before = os.umask(0o077)
    try:
        write_deltalake(str(lake / "events"), pa.table({"a": [1]}))
    finally:
        os.umask(before)
    files = [each for each in lake.rglob("*") if each.is_file()]
    assert files
    assert all(mode(each) & 0o040 for each in files)  # the mask: what the access list gives is in force
