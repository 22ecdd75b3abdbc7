"""`pleroma bench attack` itself: one short attack with everything around it, and what its figures are worth."""

import importlib.util
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "attack.py"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("benchmarks.attack", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.modules.pop("_siege", None)


def figures(**more):
    honest = {"events": more.pop("events", 1.0), "requests": more.pop("requests", 1.0)}
    usual = {"longest_stall_ms": 20.0, "rss_growth_mb": 1.0, "rejected_per_s": 5.0, "stood_still_in": "somewhere"}
    return usual | {"longest_busy_ms": 9.0, "honest_share": honest} | more


def test_a_short_attack_is_measured_with_honest_programs_beside(bench):
    found = bench.run(lambda _: None, names=("filters_without_rights",), seconds=1.0, settling=0.0)
    assert {"longest_stall_ms", "rss_growth_mb", "honest_share", "rejected_per_s"} <= set(found)
    (attack,) = found["attacks"].values()
    assert attack["tried_per_s"] > 0
    assert attack["rejected_per_s"] > 0
    assert attack["longest_stall_ms"] >= attack["longest_busy_ms"] > 0
    assert set(attack["honest_share"]) == {"events", "requests"}
    assert attack["honest_share"]["events"] > 0.5
    assert bench.rows(found)[0][0] == "filters_without_rights"


def test_every_attack_that_is_listed_is_there(bench):
    text = FILE.with_name("_attacks.py").read_text(encoding="utf-8")
    assert all(f"\nasync def {name}(a: Attack" in text for name in bench.ATTACKS)


def test_the_worst_of_each_figure_is_told(bench):
    attacks = {"one": figures(longest_stall_ms=80.0, events=0.5), "two": figures(rss_growth_mb=90.0, requests=0.1)}
    assert bench.worst(attacks) == {
        "longest_stall_ms": 80.0,
        "rss_growth_mb": 90.0,
        "honest_share": {"events": 0.5, "requests": 0.1},
        "rejected_per_s": 5.0,
    }


def test_what_misses_its_goal_is_marked(bench):
    attacks = {
        "held": figures(),
        "stalled": figures(longest_stall_ms=50.1),
        "grown": figures(rss_growth_mb=64.1),
        "deaf": figures(events=0.989),
        "slow": figures(requests=0.89),
    }
    assert {name: bench.missed(each) for name, each in attacks.items()} == {
        "held": set(),
        "stalled": {"longest_stall_ms"},
        "grown": {"rss_growth_mb"},
        "deaf": {"events"},
        "slow": {"requests"},
    }
    rows = {row[0]: row for row in bench.rows({"attacks": attacks})}
    assert [sum(cell.endswith("!") for cell in row) for row in rows.values()] == [0, 1, 1, 1, 1]
    assert (rows["held"][-1], rows["slow"][-1]) == ("", "somewhere")
