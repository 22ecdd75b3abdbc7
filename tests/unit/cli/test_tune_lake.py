"""`pleroma tune` on a lake, without Spark: plans for the network that the lake knows."""

import json

import pytest
from typer.testing import CliRunner

from pleroma.cli.command_tree import app
from pleroma.cli.plan_file import StoredPlan
from pleroma.evaluation.judge import judge
from pleroma.pipeline.lake.moments import utc
from pleroma.pipeline.lake_situation import situation_of
from pleroma.pipeline.passes.summary_pass import gather_here
from pleroma.replanning.forecast import forecast
from pleroma.selection.traffic_summary import summarise_traffic
from support.watch_cases import BEGIN, LINE, SCHEMA, WINDOW, land, new_lake, placed_lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    made = placed_lake(tmp_path_factory.mktemp("lake"))
    for number in range(2):
        land(made, number)
    return made


def tune(lake, *options):
    run = CliRunner().invoke(app, ["tune", lake.url, "--bits", "12", *map(str, options)])
    assert run.exit_code == 0, run.output
    return run


def answer(lake, *options):
    return json.loads(tune(lake, *options, "--json").stdout.splitlines()[-1])


def test_the_best_plan_is_told_as_it_is_on_the_network(lake, tmp_path):
    found = answer(lake, "--plan", tmp_path / "plan.json")
    assert (found["events"], found["subscriptions"], found["waste_at"]) == (600, 24, "hosts")
    stored = StoredPlan.read(tmp_path / "plan.json")
    situation = situation_of(lake, "stock")
    judging = gather_here(lake, "stock", situation.filters).judging
    there = forecast(situation, stored.plan.index, stored.plan.members, judging)
    (best,) = found["techniques"]
    assert best["network"] == {"rules": there.rules, "waste_at_hosts": there.at_hosts.rate, "missed": 0}
    assert list(best["network"]["rules"]) == list(LINE.switches)
    assert (best["waste_at_hosts"], best["rules"]) == (
        there.at_hosts.rate,
        there.fullest,
    )  # no publisher subscribes
    assert best["network"]["rules"]["R2"] <= 30
    assert stored.predicted["waste_at_hosts"] == there.at_hosts.rate


def test_a_star_is_the_papers_figure(lake, tmp_path):
    found = answer(lake, "--star", "--plan", tmp_path / "plan.json")
    assert (found["waste_at"], "network" in found["techniques"][0]) == ("subscriptions", False)
    plan = StoredPlan.read(tmp_path / "plan.json").plan
    filters = [row.filter for row in lake.subscriptions("stock")]
    judging = gather_here(lake, "stock", filters).judging
    assert (
        found["techniques"][0]["waste_at_subscriptions"] == judge(plan.index, filters, judging, plan.members).waste.rate
    )


def test_the_table_names_the_figure_and_the_fullest_switch(lake):
    shown, on_star = tune(lake).stdout, tune(lake, "--star").stdout
    assert "waste at hosts" in shown
    assert "on the network of the lake: " in shown
    assert "waste at subscriptions" in on_star


def test_only_the_events_of_the_time_count(lake):
    assert answer(lake, "--to", f"{utc(BEGIN + WINDOW):%Y-%m-%dT%H:%M:%S}")["events"] == 300


def test_what_an_old_lake_lacks_is_said_and_it_is_read_as_before(tmp_path):
    old = new_lake(tmp_path)
    land(old, 0)
    run = tune(old)
    assert "the lake does not know the network" in run.stderr
    assert "waste at subscriptions" in run.stdout
    old.land_topology(LINE, {}, BEGIN)
    again = tune(old)
    assert "the lake does not know who publishes" in again.stderr
    assert "waste at hosts" in again.stdout


def test_a_lake_has_its_own_network(lake):
    run = CliRunner().invoke(app, ["tune", lake.url, "--topology", "line:3"])
    assert "a network of its own" in str(run.exception)


def test_events_are_read_here_as_they_are_read_on_spark(lake):
    """In the order and with the numbers of the lake, so the same events are drawn."""
    filters = [row.filter for row in lake.subscriptions("stock")]
    rows = lake.event_table("stock").rows(names=None).sort_by("id")
    here = gather_here(lake, "stock", filters, draw=100, seed=4)
    other = summarise_traffic(
        lake.events("stock"), filters, numbers=rows["id"].to_numpy(), draw=100, seed=4, statistics=False
    )
    assert here.judging == other.judging
    assert here.training.schema == SCHEMA
