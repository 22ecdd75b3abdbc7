"""Backups: made while requests come, restored to what was acknowledged up to some moment, and refused when damaged."""

import asyncio
import io
import json
import os
import stat
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pleroma.cli.command_tree import app
from pleroma.control import Controller, CreateSchema, SqliteLog, Withdraw, state_backup
from pleroma.control.backup_manifest import BackupManifest
from pleroma.control.log.read_only_file import ReadOnlyFile
from pleroma.control.logged_state import LOG_FILE_NAME
from pleroma.control.state_backup import back_up, put_back
from pleroma.control.state_check import check_state
from pleroma.errors import ForeignLog, LogDamaged, LogError, SetupError
from support.control_cases import ANN, BEN, LINE, SMALL, TRAFFIC, WEATHER, Network, subscribe

SECRETS = {"admin.token": b"plr_secret\n", "events.key": b"00ff\n", "switch-certificates": b"1 aa\n"}


async def begun(folder, **more):
    controller = await Controller.open(folder, LINE, Network(), SMALL, **more)
    if not controller.state.schemas:
        for command in (CreateSchema(WEATHER), CreateSchema(TRAFFIC), ANN, BEN):
            await controller.submit(command)
    return controller


def made(folder):
    """The folder of a controller that was stopped, and some files in it that are not the controller's."""

    async def main():
        async with await begun(folder) as controller:
            for number in range(10):
                await controller.submit(subscribe("ben", f"temperature >= {number}", "h1"))

    asyncio.run(main())
    for name, data in (*SECRETS.items(), ("notes.txt", b"mine")):
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o600)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return made(tmp_path_factory.mktemp("backup") / "state")


@pytest.fixture(scope="module")
def backup(folder):
    target = folder.with_name("backup.tar.gz")
    back_up(folder, target)
    return target


def entries(folder):
    with SqliteLog(ReadOnlyFile(folder / LOG_FILE_NAME)) as log:
        return dict(log.read(max(log.first - 1, 0)))


def modes(path):
    return {each.name: stat.S_IMODE(each.stat().st_mode) for each in (path, *path.rglob("*"))}


def repacked(backup, target, change):
    """The backup with members as `change` leaves them, by name."""
    with tarfile.open(backup) as tar:
        members = {each.name: tar.extractfile(each).read() for each in tar}
    change(members)
    with tarfile.open(target, "w:gz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return target


@pytest.mark.parametrize("snapshot_every", [10_000, 7])
def test_a_backup_that_is_made_while_requests_come_is_a_prefix_of_what_was_acknowledged(tmp_path, snapshot_every):
    async def main():
        backups = []
        async with await begun(tmp_path / "state", snapshot_every=snapshot_every) as controller:
            answered = []

            async def ask(number):
                for step in range(12):
                    done = await controller.submit(subscribe("ben", f"temperature >= {(number + step) % 16}", "h1"))
                    answered.append(controller.position)
                    if step % 2:
                        await controller.submit(Withdraw(done.value["id"], "ben"))

            asking = [asyncio.create_task(ask(number)) for number in range(8)]
            while not all(task.done() for task in asking):
                before = max(answered, default=0)
                target = tmp_path / f"{len(backups)}.tar"
                manifest = await asyncio.to_thread(back_up, tmp_path / "state", target)
                backups.append((before, manifest, target))
            await asyncio.gather(*asking)
            whole = entries(tmp_path / "state")
        return backups, whole, controller.position

    backups, whole, last = asyncio.run(asyncio.wait_for(main(), 60))
    assert len({manifest.position for _, manifest, _ in backups}) > 1
    for number, (before, manifest, target) in enumerate(backups):
        folder = tmp_path / f"restored-{number}"
        put_back(target, folder)
        restored = entries(folder)
        assert before <= manifest.position == max(restored) <= last
        assert not [position for position, body in restored.items() if whole.get(position, body) != body]
        assert list(restored) == list(range(min(restored), max(restored) + 1))
        assert not [each for each in check_state(folder, [LINE]) if each.is_fault]


def test_a_controller_goes_on_from_a_restored_backup_with_the_keys_of_before(tmp_path, folder, backup):
    umask = os.umask(0)
    try:
        put_back(backup, tmp_path / "state")
    finally:
        os.umask(umask)
    assert {name: (tmp_path / "state" / name).read_bytes() for name in SECRETS} == SECRETS
    assert set(os.listdir(tmp_path / "state")) == {*SECRETS, LOG_FILE_NAME, f"{LOG_FILE_NAME}.head"}
    assert set(modes(tmp_path / "state").values()) == {0o600, 0o700}
    assert entries(tmp_path / "state") == entries(folder)

    async def main():
        async with await begun(tmp_path / "state") as controller:
            assert len(controller.state.registrations) == 10
            await controller.submit(subscribe("ben", "wind < 3", "h2"))
            assert len(controller.state.registrations) == 11

    asyncio.run(main())


def test_only_its_owner_reads_a_backup_and_no_file_is_replaced(folder, backup, tmp_path):
    umask = os.umask(0)
    try:
        back_up(folder, tmp_path / "mine.tar")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "mine.tar").stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["mine.tar"]
    before = backup.read_bytes()
    with pytest.raises(SetupError, match="there already"):
        back_up(folder, backup)
    assert backup.read_bytes() == before


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path, folder, backup):
    (tmp_path / "mine").write_text("x")
    for full in (tmp_path, folder):
        before = sorted(os.listdir(full))
        with pytest.raises(SetupError, match="not empty"):
            put_back(backup, full)
        assert sorted(os.listdir(full)) == before


def test_a_backup_goes_into_an_empty_folder_that_is_there(tmp_path, folder, backup):
    put_back(backup, tmp_path)
    assert entries(tmp_path) == entries(folder)
    assert modes(tmp_path)[tmp_path.name] == 0o700


def drop_log(members):
    del members[LOG_FILE_NAME]


def change_key(members):
    members["events.key"] = b"1111\n"


def add_file(members):
    members["more.key"] = b"x"


def climb(members):
    members["../climbed"] = b"x"
    manifest = json.loads(members["manifest.json"])
    manifest["files"]["../climbed"] = {
        "bytes": 1,
        "sha256": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
    }
    members["manifest.json"] = json.dumps(manifest).encode()


def promise_more(members):
    found = BackupManifest.loads(members["manifest.json"])
    members["manifest.json"] = replace(found, position=found.position + 1).dumps()


def be_short_of_a_chain(members):
    found = BackupManifest.loads(members["manifest.json"])
    members["manifest.json"] = replace(found, chain=found.chain[2:]).dumps()


def be_of_the_future(members):
    members["manifest.json"] = members["manifest.json"].replace(b'"format": 1', b'"format": 2')


def have_no_manifest(members):
    members["events.key"] = members.pop("manifest.json")


@pytest.mark.parametrize(
    ("change", "error", "reason"),
    [
        (drop_log, LogDamaged, "control.sqlite is missing"),
        (change_key, LogDamaged, "events.key is not what was backed up"),
        (add_file, ForeignLog, "more.key"),
        (climb, ForeignLog, "climbed"),
        (promise_more, LogDamaged, "the log ends at"),
        (be_short_of_a_chain, ForeignLog, "no manifest"),
        (be_of_the_future, ForeignLog, "later version"),
        (have_no_manifest, ForeignLog, "no backup"),
    ],
)
def test_a_backup_that_is_not_what_was_written_is_refused_and_leaves_nothing(tmp_path, backup, change, error, reason):
    changed = repacked(backup, tmp_path / "changed.tar", change)
    with pytest.raises(error, match=reason):
        put_back(changed, tmp_path / "state")
    assert os.listdir(tmp_path) == ["changed.tar"]


@pytest.mark.parametrize("part", [0.0, 0.3, 0.9])
def test_a_backup_that_was_cut_off_or_has_another_bit_is_refused(tmp_path, backup, part):
    data = backup.read_bytes()
    at = int(part * len(data))
    (tmp_path / "short").write_bytes(data[:at])
    (tmp_path / "flipped").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    for name in ("short", "flipped"):
        with pytest.raises(LogError):
            put_back(tmp_path / name, tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_no_controller_starts_from_a_restoration_that_was_cut_short(tmp_path, backup, monkeypatch):
    rename = Path.rename

    def fail_at_the_log(path, target):
        if path.name == LOG_FILE_NAME:
            raise OSError(5, "the disk has failed")
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", fail_at_the_log)
        with pytest.raises(LogError, match="the disk has failed"):
            put_back(backup, tmp_path)
    with pytest.raises(LogDamaged, match="acknowledged entries are missing"):
        SqliteLog.open(tmp_path / LOG_FILE_NAME)


def test_keys_that_change_while_the_log_is_copied_are_copied_again(tmp_path, monkeypatch):
    folder = made(tmp_path / "state")
    opened = []

    class Changing(ReadOnlyFile):
        def __init__(self, path):
            opened.append(path)
            if path.parent == folder and len(opened) == 1:
                (folder / "admin.token").write_bytes(b"plr_next\n")
            super().__init__(path)

    monkeypatch.setattr(state_backup, "ReadOnlyFile", Changing)
    back_up(folder, tmp_path / "backup")
    assert len(opened) == 2
    put_back(tmp_path / "backup", tmp_path / "restored")
    assert (tmp_path / "restored" / "admin.token").read_bytes() == b"plr_next\n"


def test_a_folder_without_a_log_cannot_be_backed_up(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(LogError, match="no log"):
        back_up(tmp_path / "empty", tmp_path / "backup")
    assert os.listdir(tmp_path) == ["empty"]


def test_the_commands_say_how_far_the_log_goes(tmp_path, folder):
    file, target = str(tmp_path / "a.tar.gz"), str(tmp_path / "state")
    done = CliRunner().invoke(app, ["backup", str(folder), file, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["position"] == max(entries(folder))
    done = CliRunner().invoke(app, ["restore", file, target, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) | {"made": ""} == {
        "folder": target,
        "position": max(entries(folder)),
        "made": "",
        "faults": [],
    }
