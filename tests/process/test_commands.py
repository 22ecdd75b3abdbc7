"""The commands, run as a user runs them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STOCK = ROOT / "examples" / "stock.toml"


def pleroma(*arguments, cwd=ROOT):
    environment = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "COLUMNS")}
    command = [sys.executable, "-m", "pleroma.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=cwd)


def answer(*arguments, **more):
    done = pleroma(*arguments, "--json", **more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_explain_prints_boxes_dz_and_prefixes():
    done = pleroma("explain", "price >= 50 and volume < 30", "--schema", STOCK)
    assert done.returncode == 0, done.stderr
    assert ">= 50" in done.stdout
    assert "<= 29" in done.stdout
    assert "ff0e:" in done.stdout


def test_explain_as_json_agrees_with_the_library():
    from pleroma.content import Filter, Schema
    from pleroma.index import IPV4, GridIndex

    schema = Schema.load(STOCK)
    wanted = Filter.parse(schema, "price > 500 and ticker startswith 'A'")
    data = answer("explain", str(wanted), "--schema", STOCK, "--bits", 16, "--members", 5, "--base", "225.128.0.0/9")
    cover = GridIndex.regular(schema, 16).cover(wanted, max_members=5)
    assert [(c["dz"], c["prefix"]) for c in data["cover"]] == [(str(dz), str(IPV4.prefix(dz))) for dz in cover]
    assert data["space"] == cover.volume
    assert data["finer"]["space"] <= data["space"]
    assert (data["members"], data["limit"]) == (len(cover), 5)


@pytest.mark.parametrize("ending", ["png", "svg"])
@pytest.mark.parametrize("dimensions", ["price,volume", "ticker", "market,ticker", ""])
def test_explain_draws_what_it_says(tmp_path, ending, dimensions):
    target = tmp_path / f"cells.{ending}"
    answer("explain", "price > 500", "--schema", STOCK, "--plot", target, "--dimensions", dimensions)
    begins = {"png": b"\x89PNG", "svg": b"<?xml"}[ending]
    assert target.read_bytes().startswith(begins)


def test_a_filter_that_nothing_matches_is_explained_too():
    done = pleroma("explain", "price < 3 and price > 5", "--schema", STOCK)
    assert done.returncode == 0
    assert "No event can match" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("explain", "prise > 3", "--schema", STOCK), "at 1: unknown attribute 'prise'; did you mean 'price'?"),
        (("explain", "price > 1200", "--schema", STOCK), "at 9: price: 1200 is outside [0, 1000]"),
        (("explain", "price >", "--schema", STOCK), "at 8: unexpected the end"),
        (("explain", "true", "--schema", "nowhere.toml"), "nowhere.toml: cannot read the schema"),
        (("explain", "true", "--schema", STOCK, "--bits", 113), "bits: a dz has 0 to 112 bits, not 113"),
        (("explain", "true", "--schema", STOCK, "--base", "10.0.0.0/8"), "10.0.0.0/8 is not a multicast range"),
        (("explain", "true", "--schema", STOCK, "--members", 0), "at least one member"),
        (("explain", "true", "--schema", STOCK, "--plot", "x.gif"), "--plot: a picture ends in .png, .svg or .pdf"),
        (("explain", "true", "--schema", STOCK, "--plot", f"{STOCK}/where.png"), "is not a folder"),
        (("explain", "true", "--schema", STOCK, "--dimensions", "price,Volum"), "did you mean 'volume'?"),
        (
            ("explain", "true", "--schema", "stock", "--url", "http://x", "--bits", 9),
            "--bits: is what the plan in force",
        ),
        (("simulate", "--topology", "rong:4"), "unknown topology 'rong'; did you mean 'ring'?"),
        (("simulate", "--publishers", 99), "publishers: 99 publishers on 8 hosts"),
        (("simulate", "--trees", "two"), "--trees: trees is single, forest or balanced"),
        (("simulate", "--rules", 0), "a table has room for at least one rule"),
        (("simulate", "no/such/folder"), "no/such/folder"),
        (("tune", "no/such/folder"), "no/such/folder: there is no such folder"),
        (("tune", "x", "--plan", "no/where/plan.json"), "--plan: the folder"),
        (("experiment", "fig12z"), "unknown figure 'fig12z'"),
        (("experiment", "fig12a", "--plot", STOCK), f"--plot: {STOCK} is not a folder"),
        (("bench", "indx"), "unknown benchmark 'indx'; did you mean 'index'?"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(arguments, said):
    done = pleroma(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert said in done.stderr


def test_simulate_reports_and_draws(tmp_path):
    picture = tmp_path / "use.png"
    data = answer("simulate", "--subscriptions", 40, "--events", 400, "--rules", 50, "--plot", picture)
    assert data["missed"] == 0
    assert data["deliveries"] == data["wanted"] + data["wasted"]
    assert max(data["rules"].values()) <= 50
    assert picture.read_bytes().startswith(b"\x89PNG")
    shown = pleroma("simulate", "--subscriptions", 40, "--events", 400).stdout
    assert "missed" in shown
    assert "busiest links" in shown


def test_a_workload_can_be_made_and_simulated(tmp_path):
    folder = tmp_path / "data"
    assert pleroma("workload", "stock", folder, "--subscriptions", 30).returncode == 0
    assert answer("simulate", folder, "--topology", "ring:4")["missed"] == 0


def test_tune_writes_the_best_plan_and_draws_its_cells(tmp_path):
    from pleroma.index import IndexPlan, TreeIndex
    from pleroma.index.tree_walk import LEAF

    folder = tmp_path / "data"
    made = ("--model", "thesis", "--dimensions", 3, "--subscriptions", 20, "--events", 200, "--variance", "random")
    assert pleroma("workload", "make", folder, *made).returncode == 0
    plan = tmp_path / "plan.json"
    data = answer(
        "tune",
        folder,
        "--bits",
        9,
        "--members",
        8,
        "--plan",
        plan,
        "--plot",
        tmp_path,
        "--topology",
        "star:3",
        "--compare",
    )
    best = data["techniques"][0]
    assert data["best"] == best["technique"]
    assert best["network"]["waste_at_hosts"] == min(each["network"]["waste_at_hosts"] for each in data["techniques"])
    assert {each["network"]["missed"] for each in data["techniques"]} == {0}
    assert len(best["network"]["rules"]) == 4  # a switch in the middle and three around it
    index = IndexPlan.loads(plan.read_text()).index
    if isinstance(index, TreeIndex):
        given = {index.schema.names[d] for d in index.dimensions if d != LEAF}
    else:
        grids = [region.grid for region in index.regions] if hasattr(index, "regions") else [index]
        given = {index.schema.names[d] for grid in grids for d in grid.axes}
    assert given == set(best["bits"])
    for picture in ("cells.png", "waste.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
    shown = pleroma("tune", folder, "--bits", 6, "--compare").stdout
    assert "best first" in shown
    assert "ges + selective" in shown
    run = answer("simulate", folder, "--plan", plan, "--members", 8, "--topology", "star:3")
    assert run["missed"] == 0
    assert run["bits"] == index.bits


def test_experiments_are_listed_and_run(tmp_path):
    assert "fig12a" in pleroma("experiment", "--list").stdout
    data = answer("experiment", "fig12a", "--quick", "--plot", tmp_path)
    assert data["claims"][0]["holds"] is True
    assert set(data["lines"]) == {"evs", "random"}
    assert (tmp_path / "fig12a.png").read_bytes().startswith(b"\x89PNG")
    assert "holds: EVS beats random" in pleroma("experiment", "fig12a", "--quick").stdout


def test_version_and_help():
    assert pleroma("--version").stdout.startswith("pleroma ")
    for command in ((), ("explain",), ("simulate",), ("workload",), ("bench",)):
        done = pleroma(*command, "--help")
        assert done.returncode == 0
        assert "Usage" in done.stdout


def test_benchmarks_are_listed():
    done = pleroma("bench")
    assert done.returncode == 0
    assert "index" in done.stdout
    assert "routing" in done.stdout
