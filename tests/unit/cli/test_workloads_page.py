"""Every command of docs/workloads.md, run in its order on a part of the public data set that the page is about."""

import json
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pleroma.cli.command_tree import app
from pleroma.workloads import Workload

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "workloads.md").read_text(encoding="utf-8")
ROWS = 1500


def commands():
    return [
        line
        for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
    ]


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """By command, what it answered; in the folder that they were run in."""
    folder = tmp_path_factory.mktemp("orders")
    shutil.copytree(ROOT / "examples", folder / "examples")
    found, before = {}, Path.cwd()
    os.chdir(folder)
    try:
        for line in commands():
            program, *arguments = shlex.split(line)
            if program == "python":
                assert arguments[0] == "-c"
                exec(arguments[1].replace("data.to_csv", f"data[::{9994 // ROWS}].to_csv"), {})  # noqa: S102
            else:
                assert program == "pleroma"
                run = CliRunner().invoke(app, [*arguments, "--json"])
                assert run.exit_code == 0, (line, run.output, run.exception)
                found[line] = json.loads(run.stdout.splitlines()[-1])
        yield folder, found
    finally:
        os.chdir(before)


def of(answers, *words):
    return next(answer for line, answer in answers[1].items() if all(word in line for word in words))


def test_the_walk_goes_through_import_show_tune_explain_and_simulate(answers):
    folder, found = answers
    assert len(found) == len(commands()) - 1
    workload = Workload.load(folder / "data" / "orders")
    assert (len(workload.events), len(workload.subscriptions)) == (len(range(0, 9994, 9994 // ROWS)), 14)
    assert of(answers, "import", "orders.filters")["unused_columns"] == [
        "Country",
        "City",
        "Postal Code",
        "Sub-Category",
    ]
    assert len(Workload.load(folder / "data" / "many").subscriptions) == 300
    assert {path.name for path in (folder / "pictures").iterdir()} == {"orders.png", "cells.png", "use.pdf", "use.csv"}


def test_the_learned_plan_brings_hardly_more_than_is_wanted_and_the_grid_does(answers):
    grid, plan = (of(answers, "explain", *words)["share"] for words in (("data/orders",), ("--plan",)))
    assert grid["wanted"] == plan["wanted"]
    assert grid["delivered"] > 5 * grid["wanted"]
    assert plan["delivered"] < 2 * plan["wanted"]


def test_the_learned_plan_wastes_a_fraction_on_a_network(answers):
    grid, plan = (of(answers, "simulate", word) for word in ("--publishers 1", "--plan"))
    assert grid["missed"] == plan["missed"] == 0
    assert plan["waste_at_hosts"] < grid["waste_at_hosts"] / 3


def test_the_cables_of_the_picture_have_the_shares_of_events(answers):
    folder, _ = answers
    header, *rows = (folder / "pictures" / "use.csv").read_text().splitlines()
    assert header == "end,other end,events,share"
    shares = [float(row.rpartition(",")[2]) for row in rows]
    assert len(rows) == 24
    assert max(shares) == 1.0  # the cable of the host that publishes
    assert len({round(share, 2) for share in shares}) > 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--subscriptions: give a file of filters, or how many to --generate"),
        (
            ("--generate", "3", "--subscriptions", "x"),
            "--subscriptions: give a file of filters, or how many to --generate",
        ),
        (("--generate", "0"), "subscriptions: must be from 1 to 1000000, not 0"),
        (("--generate", "3", "--width", "2"), "width: must be from 0 to 1, not 2.0"),
    ],
)
def test_subscriptions_come_from_one_place(tmp_path, options, said):
    (tmp_path / "orders.csv").write_text("Quantity\n")
    given = ("--schema", str(ROOT / "examples" / "orders.toml"), "--events", str(tmp_path / "orders.csv"))
    run = CliRunner().invoke(app, ["workload", "import", str(tmp_path / "out"), *given, *options])
    assert run.exit_code != 0
    assert str(run.exception) == said


def test_what_was_left_out_is_said(tmp_path):
    lines = ["a", "5", "12", "x"]
    (tmp_path / "data.csv").write_text("\n".join(lines))
    (tmp_path / "s.json").write_text(
        '{"name": "s", "attribute": [{"name": "a", "kind": "integer", "min": 0, "max": 9}]}'
    )
    (tmp_path / "f.txt").write_text("a > 3\nb > 3\n")
    given = [f"--{name}={tmp_path / file}" for name, file in (("schema", "s.json"), ("events", "data.csv"))]
    given.append(f"--subscriptions={tmp_path / 'f.txt'}")
    run = CliRunner().invoke(app, ["workload", "import", str(tmp_path / "out"), *given, "--skip"])
    assert run.exit_code == 0, run.output
    said = " ".join(run.stdout.split())
    assert "wrote 1 events and 1 subscriptions" in said
    assert f"left out 2 of {tmp_path / 'data.csv'}, the first: line 3: a: 12 is outside [0, 9]" in said
    assert f"left out 1 of {tmp_path / 'f.txt'}, the first: line 2: " in said
