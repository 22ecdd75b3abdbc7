"""The commands of the docs that take Spark, in the session of the tests, on a lake with a day of quotes in it."""

import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from pleroma.cli.command_tree import app
from pleroma.lab import missing
from pleroma.pipeline import spark_session
from support.audited_lake import land
from support.docs_commands import LISTED

ON_SPARK = [
    command
    for command in LISTED
    if command.startswith(("audit", "pipeline sweep", "pipeline tune", "pipeline watch", "experiment frontier"))
    or "--spark" in command
]
SMALLER = {
    "experiment fig": ("--quick",),
    "experiment frontier": ("--quick", "--keep=found"),
    "pipeline sweep": ("--subscriptions=8", "--events=60", "--seeds=1", "--selections=ges", "--splits=regular"),
    "pipeline watch": ("--once",),
}
"""What is added to a command, by how it begins: less to compute than in the docs (and once), or an end."""
THERE = {"data/lake": "lake", "LAKE": "lake", "--schema stock": "--schema quotes", "T12:00": "T09:00", ":8470": ":9"}
"""What the lake here has instead; at port 9 is no controller, without which windows are published all the same."""
END_SECONDS = 60
LONG = os.environ.get("PLEROMA_LONG") == "1"


def run(command):
    for said, here in THERE.items():
        command = command.replace(said, here)
    more = [word for start, words in SMALLER.items() if command.startswith(start) for word in words]
    done = CliRunner().invoke(app, [*shlex.split(command), *more])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("day")
    land(made / "lake")
    (made / "tuner.token").write_text("plr_tuner\n")
    return made


@pytest.fixture
def warm(spark, folder, monkeypatch):
    """Commands get the session of the tests, and leave it as it is."""

    @contextmanager
    def given(*_, **__):
        yield spark

    monkeypatch.setattr(spark_session, "session", given)
    monkeypatch.chdir(folder)


@pytest.mark.parametrize("command", ON_SPARK)
@pytest.mark.usefixtures("warm")
def test_every_command_in_the_docs_that_takes_spark_does_what_it_is_asked(command, folder):
    said = run(command)
    if "--json" in command:
        assert all(isinstance(json.loads(line), dict) for line in said.splitlines())
    if "--plan plan.json" in command:
        assert (folder / "plan.json").stat().st_size > 100
    if "--plot findings" in command:
        assert {path.name for path in (folder / "findings").iterdir()} == {"wasters.png", "attributes.png", "hours.png"}


@pytest.mark.parametrize("command", [each for each in LISTED if each.startswith("lab spark")])
def test_a_cluster_of_the_docs_stands_until_it_is_told_to_go(command):
    words = [sys.executable, "-m", "pleroma.cli", *shlex.split(command), "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as cluster:
        try:
            told = json.loads(cluster.stdout.readline())
            assert told["url"].startswith("spark://127.0.0.1:")
            cluster.send_signal(signal.SIGINT)
            assert cluster.wait(END_SECONDS) == 0
        finally:
            cluster.kill()


@pytest.mark.skipif(not LONG, reason="takes minutes: set PLEROMA_LONG=1")
@pytest.mark.parametrize("command", [each for each in LISTED if each.startswith("demo") and "--no-spark" not in each])
def test_a_demonstration_of_the_docs_loses_nothing(command, tmp_path):
    if "--network ovs" in command and (reason := missing()):
        pytest.skip(f"NO SWITCHES: {reason}")
    words = [sys.executable, "-m", "pleroma.cli", *shlex.split(command), "--json"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["missed"], told["too_many"]) == (0, 0)
    assert (tmp_path / "loop.png").is_file() == ("--plot loop.png" in command)
