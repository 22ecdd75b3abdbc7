from dataclasses import replace

import pytest

from pleroma.evaluation.placement import spread_of
from pleroma.experiments.figures.catalogue import EXPERIMENTS
from pleroma.experiments.frontier.frontier import WORKLOADS, Frontier, FrontierScenario
from pleroma.routing import build

SMALL = replace(
    Frontier().smaller(),
    workloads={name: WORKLOADS[name] for name in ("uniform", "stock")},
    splits=("adaptive",),
    lengths=(5, 9),
    events=1_000,
)


@pytest.fixture(scope="module")
def report():
    return replace(SMALL, subscriptions=(100,), budgets=(100, 400)).run_all(lambda _: None)


def test_every_workload_has_a_ratio_at_every_budget(report):
    ratios = report.figures["waste_ratio"]
    assert {name: set(by_rules) for name, by_rules in ratios.items()} == {
        "uniform": {"100", "400"},
        "stock": {"100", "400"},
    }
    assert ratios["stock"]["400"] > 1.5


def test_points_where_the_events_set_aside_were_wrong_are_named(report):
    wrong = report.figures["points"], report.figures["worse"]
    assert len([each for each in wrong[0] if each["learned_waste"] > each["technique_waste"]]) == len(wrong[1])
    assert set(report.panels) == {"uniform, 100, star, 23 bits", "stock, 100, star, 23 bits"}


def test_a_panel_has_no_bits_the_best_technique_at_each_budget_and_the_learned_index(report):
    for heading, panel in report.panels.items():
        assert list(panel) == ["no bits", "best technique of the papers", "learned"]
        points = [each for each in report.figures["points"] if heading.startswith(each["workload"])]
        assert panel["best technique of the papers"] == {each["rules"]: each["technique_waste"] for each in points}
        assert panel["learned"] == {each["rules"]: each["learned_waste"] for each in points}


def test_nobody_takes_more_rules_than_there_are(report):
    for point in report.figures["points"]:
        assert point["technique_rules"] <= point["rules"]
        assert point["learned_rules"] <= point["rules"]


def test_every_technique_has_a_line_and_more_rules_do_not_waste_more(report):
    labels = {label.split(",")[0] for label in report.lines}
    assert labels == {"ges + adaptive", "no bits", "learned"}
    for label, line in report.lines.items():
        if label.startswith("learned"):
            assert line[400] <= line[100] + 0.02


def test_a_network_counts_the_rules_of_its_fullest_switch():
    setting = replace(SMALL, lengths=(8,), budgets=(150,), networks=("fat-tree:4",))
    found = {task: setting.found(task) for task in setting.tasks("uniform", 60)}
    ((scenario, points, _),) = setting.measured("uniform", 60, found)
    assert scenario == FrontierScenario("uniform", 60, "fat-tree:4", 23)
    assert [point.rules for point in points] == [150]
    assert points[0].learned.rules <= 150
    assert points[0].ratio >= 1.0


def test_every_switch_has_a_port_towards_every_host():
    network = build("fat-tree:4")
    spread = spread_of(network)
    assert 0 < len(spread) <= len(network.switches)
    assert {len(ports) for ports in spread} == {len(network.hosts)}


def test_the_frontier_can_be_asked_for_by_name():
    assert isinstance(EXPERIMENTS["frontier"], Frontier)


def test_the_narrower_subscriptions_are_the_more_a_tree_saves():
    asked = replace(EXPERIMENTS["frontier-widths"].smaller(), splits=("regular",), budgets=(600,))
    asked = replace(asked, workloads={name: asked.workloads[name] for name in ("zipfian 0.1", "zipfian 0.4")})
    narrow, wide = asked.run_all(lambda _: None).figures["points"]
    assert narrow["ratio"] > wide["ratio"] >= 1.0
