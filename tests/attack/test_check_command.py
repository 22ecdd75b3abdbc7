"""`pleroma check`: what is wrong with the folder of a controller, in a line each, and how to go on."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pleroma.cli.command_tree import app
from pleroma.cli.output import one_line_errors
from pleroma.control import Controller
from pleroma.control.logged_state import LOG_FILE_NAME
from pleroma.control.state.command import CreateSchema
from pleroma.control.state_check import check_state
from pleroma.errors import LogDamaged
from pleroma.routing import build
from support.control_cases import ANN, BEN, LINE, SMALL, TRAFFIC, WEATHER, Network, subscribe
from support.killed_log import copied

REGISTRATIONS = 38


async def lived(folder, killed):
    """A controller that took some requests; its files as a kill leaves them are in `killed`."""
    async with await Controller.open(folder, LINE, Network(), SMALL, snapshot_every=15) as controller:
        for command in (CreateSchema(WEATHER), CreateSchema(TRAFFIC), ANN, BEN):
            await controller.submit(command)
        for number in range(REGISTRATIONS):
            await controller.submit(subscribe("ben", f"temperature >= {number % 16}", "h1"))
        copied(folder / LOG_FILE_NAME, killed)
        assert faults(folder) == []
        assert found(folder)["lock"].startswith("held by process")


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    killed = tmp_path_factory.mktemp("check") / "killed"
    asyncio.run(lived(killed.with_name("folder"), killed))
    for each in killed.iterdir():
        each.chmod(0o600)
    killed.chmod(0o700)
    return killed


@pytest.fixture
def folder(left, tmp_path):
    copied(left / LOG_FILE_NAME, tmp_path / "state")
    (tmp_path / "state").chmod(0o700)
    for each in (tmp_path / "state").iterdir():
        each.chmod(0o600)
    return tmp_path / "state"


def faults(folder):
    return [(each.part, each.text) for each in check_state(folder, [LINE]) if each.is_fault]


def found(folder):
    return {each.part: each.text for each in check_state(folder, [build("ring:3"), LINE])}


def changed(path, change):
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)


def test_a_sound_folder_is_replayed_and_nothing_in_it_is_changed(folder):
    before = {each.name: each.read_bytes() for each in folder.iterdir() if not each.name.endswith("-shm")}
    assert faults(folder) == []
    said = found(folder)
    assert said["state"] == f"replayed: 2 schemas, 2 principals, {REGISTRATIONS} registrations"
    assert said["lock"] == "free"
    assert {each.name: each.read_bytes() for each in folder.iterdir() if not each.name.endswith("-shm")} == before


def test_another_network_is_said_and_no_fault(folder):
    findings = check_state(folder, [build("ring:3")])
    assert [each.text for each in findings if each.part == "state"] == [
        "not replayed: made for another network (--topology)"
    ]
    assert not any(each.is_fault for each in findings)


def test_every_fault_is_a_line(folder):
    folder.chmod(0o755)
    (folder / "control.sqlite").chmod(0o644)
    (folder / "control.sqlite.head").unlink()
    with closing(sqlite3.connect(folder / LOG_FILE_NAME)) as other:
        other.execute("UPDATE entries SET body = x'00' WHERE position = 30")
        other.execute("UPDATE snapshots SET state = x'00' WHERE position = (SELECT max(position) FROM snapshots)")
        other.commit()
    beginnings = [
        ("permissions", f"{folder} is open to others (mode 755)"),
        ("permissions", "control.sqlite is open to others (mode 644)"),
        ("head", f"{folder}/control.sqlite.head is missing or unreadable"),
        ("entries", f"{folder}/control.sqlite: entry 30 is not what was written"),
        ("snapshots", "at "),
        ("state", f"{folder}/control.sqlite: entry 30 is not what was written"),
    ]
    said = faults(folder)
    assert [part for part, _ in said] == [part for part, _ in beginnings]
    assert all(text.startswith(begun) for (_, text), (_, begun) in zip(said, beginnings, strict=True))


def test_lost_entries_are_told_repaired_only_when_asked_and_then_a_controller_starts(folder):
    wal = folder / f"{LOG_FILE_NAME}-wal"
    wal.write_bytes(wal.read_bytes()[:32])
    run = CliRunner()
    with pytest.raises(
        LogDamaged, match=r"acknowledged entries are missing: .* `pleroma check .*` tells what can be done"
    ):
        asyncio.run(Controller.open(folder, LINE, Network(), SMALL))
    result = run.invoke(app, ["check", str(folder), "--json"])
    assert result.exit_code == 1
    said = json.loads(result.stdout.splitlines()[-1])
    assert said["faults"] >= 1
    assert any("acknowledged entries are missing" in each["text"] for each in said["findings"])
    shown = run.invoke(app, ["check", str(folder)])
    assert shown.exit_code == 1
    assert "acknowledged entries are missing" in shown.output
    result = run.invoke(app, ["check", str(folder), "--repair", "--json"])
    repaired = json.loads(result.stdout.splitlines()[-1])["repair"]
    assert repaired["lost"] > 0
    assert Path(repaired["aside"]).parent == folder
    assert faults(folder) == []

    async def goes_on():
        async with await Controller.open(folder, LINE, Network(), SMALL) as controller:
            assert controller.position == repaired["position"]
            await controller.submit(subscribe("ben", "wind < 3", "h2"))

    asyncio.run(goes_on())
    assert faults(folder) == []


def test_a_folder_without_a_log_is_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped, one_line_errors():
        app(["check", str(tmp_path)], standalone_mode=False)
    assert stopped.value.code == 2
    assert "there is no control.sqlite in it" in capsys.readouterr().err
