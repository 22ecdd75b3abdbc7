"""The wheel, installed where nothing else of this checkout is: it has all its files, and the examples run with it."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 60
WITHOUT_COMPILING = {"NUMBA_DISABLE_JIT": "1"}
"""A new place has no compiled kernels, and to make them takes longer than all the rest."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built as deploy/README.md says, with the packages of this environment, so that nothing is fetched."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("pleroma-*.whl")
    return made


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """An environment with the wheel in it, which finds other packages where this one does, and not this checkout."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=SECONDS)
    command = [sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "--quiet", "--no-compile"]
    subprocess.run([*command, "--no-deps", "--no-index", wheel], check=True, capture_output=True, timeout=SECONDS)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")  # whose own .pth files are not read
    return folder


def started(environment, *words):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PLEROMA"))}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [environment / "bin" / words[0], *map(str, words[1:])]
    return subprocess.Popen(command, env=clean | WITHOUT_COMPILING, cwd=environment, **pipes)


def ended(process):
    said, complaints = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, complaints
    return said


def test_the_page_builds_the_wheel_that_is_tested():
    page = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
    assert "python -m build --wheel" in page


def test_every_file_of_the_package_is_in_the_wheel(wheel):
    here = {
        path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "pleroma").rglob("*") if path.is_file()
    }
    here = {name for name in here if "__pycache__" not in name}
    with zipfile.ZipFile(wheel) as opened:
        there = {name for name in opened.namelist() if ".dist-info/" not in name}
    assert there == here
    assert any(not name.endswith(".py") for name in there)


def test_the_examples_run_against_a_controller_with_nothing_but_the_wheel(environment):
    where = ended(started(environment, "python", "-c", "import pleroma; print(pleroma.__file__)"))
    assert where.startswith(str(environment))
    controller = started(environment, "pleroma", "up", "--folder", "state", "--port", 0, "--json")
    try:
        said = json.loads(controller.stdout.readline())
        token = (environment / said["token_file"]).read_text().strip()
        known = ("--url", said["url"], "--token", token)
        ended(started(environment, "pleroma", "schema", ROOT / "examples/stock.toml", *known))
        subscriber = started(environment, "python", ROOT / "examples/subscriber.py", *known, "--count", 3)
        assert subscriber.stdout.readline().startswith("listening at h")
        publisher = started(
            environment, "python", ROOT / "examples/publisher.py", *known, "--rate", 100, "--seconds", 20
        )
        *events, _ = ended(subscriber).splitlines()
        assert len(events) == 3
        publisher.send_signal(signal.SIGINT)
        publisher.communicate(timeout=SECONDS)
    finally:
        controller.send_signal(signal.SIGTERM)
        controller.communicate(timeout=SECONDS)
