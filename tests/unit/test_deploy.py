"""The files in deploy/: commands that there are, files that exist, and units that systemd takes and finds safe."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.command_line import understood

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
SERVICES = [DEPLOY / "systemd" / f"{name}.service" for name in ("pleroma", "pleroma-broker")]
HIGHEST_EXPOSURE = 20
"""Of 100, as `systemd-analyze security` counts; a unit without any protection has 96."""
INSTRUCTIONS = {
    "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "RUN", "STOPSIGNAL", "USER", "VOLUME",
    "WORKDIR",
}  # fmt: skip
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def settings(unit, name):
    return re.findall(rf"^{name}=(.*)$", unit.read_text(), re.MULTILINE)


def instructions():
    """The instructions of the Containerfile, in order, without comments."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Containerfile").read_text(), flags=re.MULTILINE)
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def given(name):
    return [rest for instruction, rest in instructions() if instruction == name]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_starts_a_command_that_there_is(unit):
    for command in (*settings(unit, "ExecStart"), *settings(unit, "ExecReload")):
        words = shlex.split(re.sub(r"\$[A-Z_]+", "", command.replace("${STATE_DIRECTORY}", "state")))
        if Path(words[0]).name == "pleroma":
            understood(words[1:])


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_options_that_a_unit_suggests_exist(unit):
    command = shlex.split(settings(unit, "ExecStart")[0])[1]
    for example in re.findall(r"PLEROMA_OPTIONS=(-.*)", unit.read_text()):
        understood([command, *shlex.split(example)])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here to look at its units")
def test_systemd_takes_the_units_and_finds_them_safe(tmp_path):
    for unit in UNITS:
        text = re.sub(r"(?<=^ExecStart=)\S*pleroma(?= )", sys.executable, unit.read_text(), flags=re.MULTILINE)
        (tmp_path / unit.name).write_text(text)
    named = [str(tmp_path / unit.name) for unit in UNITS]
    taken = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *named], capture_output=True, text=True, timeout=60
    )
    complaints = [line for line in taken.stderr.splitlines() if "pleroma" in line]
    assert (taken.returncode, complaints) == (0, [])
    for unit in UNITS:
        command = ["systemd-analyze", "security", "--offline=true", f"--threshold={HIGHEST_EXPOSURE}", "--no-pager"]
        found = subprocess.run([*command, str(tmp_path / unit.name)], capture_output=True, text=True, timeout=60)
        assert found.returncode == 0, found.stdout.splitlines()[-1:]


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_only_the_service_reads_its_state(unit):
    assert settings(unit, "User") == ["pleroma"]
    assert settings(unit, "StateDirectoryMode") == ["0700"]
    assert settings(unit, "UMask") == ["0077"]


def test_the_image_is_made_of_files_that_are_here_and_of_packages():
    assert {name for name, _ in instructions()} <= INSTRUCTIONS
    assert instructions()[0][0] == "FROM"
    assert all(re.match(r"python:\d+\.\d+-slim-\w+( AS \w+)?$", image) for image in given("FROM"))
    allowed = {line[1:] for line in (DEPLOY / "Containerfile.dockerignore").read_text().splitlines() if line[0] == "!"}
    for copied in given("COPY"):
        *sources, _ = copied.split()
        if sources[0].startswith("--from="):
            continue
        for source in sources:
            assert (ROOT / source).exists(), f"{source} is not there"
            assert source in allowed, f"{source} is kept out by the ignore file"
    for run in given("RUN"):
        assert not re.search(r"\b(curl|wget|git|ADD)\b|https?:", run)


def test_the_image_runs_a_command_that_there_is_as_nobody_special():
    (entry,), (command,) = map(json.loads, given("ENTRYPOINT")), map(json.loads, given("CMD"))
    assert entry == ["pleroma"]
    understood(command)
    (user,) = given("USER")
    assert f" {user} " in given("RUN")[-1]
    assert user not in ("root", "0")


def test_compose_runs_commands_that_there_are_with_volumes_that_are_declared_on_this_machine_alone():
    for service in COMPOSE["services"].values():
        understood(service["command"])
        context = (DEPLOY / service["build"]["context"]).resolve()
        assert context == ROOT
        assert (context / service["build"]["dockerfile"]).is_file()
        for volume in service["volumes"]:
            name, place = volume.split(":")
            assert name in COMPOSE["volumes"]
            assert place in json.loads(given("VOLUME")[0])
        exposed = given("EXPOSE")[0].split()
        for port in service["ports"]:
            address, outside, inside = port.split(":")
            assert address == "127.0.0.1"
            assert inside in exposed
            assert outside == inside.partition("/")[0]  # programs send events to the number that the service names
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]


def test_the_page_names_the_files():
    page = (DEPLOY / "README.md").read_text()
    for path in (*UNITS, DEPLOY / "Containerfile", DEPLOY / "compose.yaml"):
        assert path.name in page, f"deploy/README.md does not name {path.name}"
