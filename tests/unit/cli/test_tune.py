"""`pleroma tune` with a limit on rules, in this process."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from pleroma.cli.command_tree import app
from pleroma.cli.plan_file import StoredPlan
from pleroma.index import TreeIndex
from pleroma.workloads import THESIS, Workload, generate


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tune") / "data"
    generate(replace(THESIS, dimensions=3, subscriptions=30, events=300, seed=2)).save(path)
    return path


def tune(folder, *options):
    return CliRunner().invoke(app, ["tune", str(folder), *map(str, options)])


def test_within_so_many_rules_the_learned_tree_is_best_and_is_drawn_over_the_dimensions_asked_for(folder, tmp_path):
    plan = tmp_path / "plan.json"
    drawing = ("--plot", tmp_path, "--across", "d2,d0")
    run = tune(folder, "--bits", 12, "--rules", 120, "--plan", plan, *drawing, "--compare", "--json")
    assert run.exit_code == 0, run.output
    data = json.loads(run.stdout.splitlines()[-1])
    assert data["best"] == "learned"
    best = data["techniques"][0]
    assert best["rules"] <= 120
    assert best["members"] >= 16
    stored = StoredPlan.read(plan)
    assert (stored.plan.members, stored.has_members) == (best["members"], True)
    assert stored.predicted == {
        "waste_at_subscriptions": best["waste_at_subscriptions"],
        "rules": best["rules"],
        "subscriptions": len(Workload.load(folder).subscriptions),
    }
    index = stored.plan.index
    assert isinstance(index, TreeIndex)
    assert index.bits == 12
    assert (tmp_path / "cells.png").read_bytes().startswith(b"\x89PNG")
    within = [each["rules"] <= 120 for each in data["techniques"]]
    assert within == sorted(within, reverse=True)


def test_the_tree_comes_alone_and_without_curves_unless_techniques_are_compared(folder, tmp_path):
    run = tune(folder, "--bits", 12, "--plot", tmp_path, "--json")
    assert run.exit_code == 0, run.output
    data = json.loads(run.stdout.splitlines()[-1])
    assert [each["technique"] for each in data["techniques"]] == ["learned"]
    assert data["plots"] == [str(tmp_path / "cells.png")]
    shown = tune(folder, "--bits", 12).stdout
    assert "plans, best first" in shown
    assert "dz each" in shown


def test_what_is_no_number_of_rules_or_no_dimension_is_said(folder, tmp_path):
    assert "--rules" in str(tune(folder, "--rules", 0).exception)
    assert "d9" in str(tune(folder, "--plot", tmp_path, "--across", "d0,d9").exception)


def test_with_a_topology_the_tree_is_learned_for_its_switches_and_their_limits(folder, tmp_path):
    network = tmp_path / "network.json"
    hosts = [{"name": f"h{n}", "switch": f"R{n % 2 + 1}"} for n in range(4)]
    data = {"switches": ["R1", "R2"], "hosts": hosts, "links": [{"a": "R1", "b": "R2"}], "limits": {"R2": 40}}
    network.write_text(json.dumps(data), encoding="utf-8")
    run = tune(folder, "--bits", 12, "--rules", 90, "--topology", network, "--json")
    assert run.exit_code == 0, run.output
    found = json.loads(run.stdout.splitlines()[-1])["techniques"]
    tree = next(each for each in found if each["technique"] == "learned")
    assert tree["network"]["rules"]["R1"] == tree["rules"] <= 90  # as counted, since nothing had to be coarsened
    assert tree["network"]["rules"]["R2"] <= 40
    assert tree["network"]["missed"] == 0
