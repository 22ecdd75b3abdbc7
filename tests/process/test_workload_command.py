"""`pleroma workload`, run as a user runs it."""

import json
import os
import subprocess
import sys

import pytest

from pleroma.workloads import Workload


def pleroma(*arguments):
    command = [sys.executable, "-m", "pleroma.cli", "workload", *map(str, arguments)]
    environment = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "COLUMNS")}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def last_line(done):
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "workload"
    done = pleroma("make", folder, "--model", "thesis", "--subscriptions", 50, "--events", 300, "--variance", "random")
    assert done.returncode == 0, done.stderr
    assert "300 events and 50 subscriptions" in done.stdout
    return folder


def test_make_writes_a_workload_with_the_settings_given(made):
    workload = Workload.load(made)
    assert (len(workload.events), len(workload.subscriptions), len(workload.schema)) == (300, 50, 8)
    settings = workload.description["settings"]
    assert (settings["variance"], settings["placement"], settings["high"]) == ("random", "inside", 10_000)


def test_every_setting_of_the_model_is_an_option(tmp_path):
    options = {
        "dimensions": 6, "low": -5, "high": 99, "subscriptions": 7, "events": 8, "distribution": "zipfian",
        "hotspots": 3, "exponent": 2.0, "width": 0.3, "selectivity": "random", "variance": "random", "selective": 2,
        "correlation": "inverse", "correlation_strength": 0.5, "pairs": 1, "placement": "inside", "seed": 9,
    }  # fmt: skip
    flags = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
    done = pleroma("make", tmp_path / "w", *flags, "--json")
    assert done.returncode == 0, done.stderr
    assert last_line(done)["description"]["settings"] == options


def test_stock_writes_the_quotes(tmp_path):
    done = pleroma("stock", tmp_path / "s", "--subscriptions", 5, "--seed", 2, "--json")
    assert done.returncode == 0, done.stderr
    assert (last_line(done)["events"], last_line(done)["subscriptions"]) == (12_154, 5)
    assert Workload.load(tmp_path / "s").description["settings"]["seed"] == 2


def test_show_says_what_is_there_within_eighty_columns(made):
    done = pleroma("show", made)
    assert done.returncode == 0, done.stderr
    assert "300 events, 50 subscriptions" in " ".join(done.stdout.split())
    assert all(len(line) <= 80 for line in done.stdout.splitlines() if "│" in line)
    assert done.stdout.count("[0, 10000]") == 8
    assert "nobody wants 0.0% of the events" in done.stdout


def test_show_as_json_and_as_a_picture(made, tmp_path):
    done = pleroma("show", made, "--plot", tmp_path / "p.svg", "--json")
    assert done.returncode == 0, done.stderr
    data = last_line(done)
    workload = Workload.load(made)
    matches = sum(workload.events.matches(each).mean() for each in workload.subscriptions)
    assert data["matches"] == pytest.approx(matches)
    assert [each["name"] for each in data["attributes"]] == [f"d{i}" for i in range(8)]
    assert "<svg" in (tmp_path / "p.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("make", "OUT", "--dimensions", 0), "dimensions: must be at least 1, not 0"),
        (("make", "OUT", "--hotspots", 9), "hotspots: must be from 1 to 8, not 9"),
        (("make", "OUT", "--pairs", 1), "pairs: needs a correlation"),
        (("make", "."), "not empty"),
        (("stock", "OUT", "--subscriptions", -1), "subscriptions: must be from 0"),
        (("stock", "."), "not empty"),
        (("show", "OUT"), "there is no such folder"),
        (("show", "."), "there is no such file"),
        (("show", "OUT", "--plot", "x.gif"), "--plot: a picture ends in .png, .svg or .pdf"),
    ],
)
def test_a_mistake_gets_one_line_and_writes_nothing(arguments, words, tmp_path):
    (tmp_path / "precious.txt").write_text("")
    places = {"OUT": tmp_path / "out", ".": tmp_path}
    done = pleroma(*(places.get(each, each) for each in arguments))
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr
    assert os.listdir(tmp_path) == ["precious.txt"]


def test_help_loads_nothing_heavy():
    code = (
        "import sys, typer.testing; from pleroma.cli.commands.workload import app;"
        "typer.testing.CliRunner().invoke(app, ['make', '--help']);"
        "sys.exit(', '.join({'numpy', 'pyarrow', 'matplotlib', 'pleroma.workloads'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
