"""What `pleroma bench routing` measures with many standing subscriptions, in small: real processes, real requests."""

import importlib.util
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "_standing.py"


@pytest.fixture
def bench(monkeypatch):
    spec = importlib.util.spec_from_file_location("benchmarks._standing", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    small = {"NETWORK": "random:20x64", "SIZES": (1_000, 3_000), "ROUNDS": 3, "PAIRS": 20}
    for name, value in small.items():
        monkeypatch.setattr(module, name, value)
    return module


def test_cost_and_memory_are_measured_for_each_number_of_subscriptions(bench):
    advanced = []
    found = bench.standing(advanced.append)
    assert set(found) == {"standing", "growth_1k_to_3k"}
    assert set(found["standing"]) == {"1000", "3000"}
    for figures in found["standing"].values():
        assert figures["switches"] == 20
        assert 0 < figures["cpu_us_p50"] <= figures["cpu_us_p99"]
        assert figures["requests_per_s"] == pytest.approx(1e6 / figures["cpu_us_per_request"], rel=0.01)
        assert figures["operations_per_request"] > 0
    few, many = found["standing"]["1000"], found["standing"]["3000"]
    assert few["rules_all"] < many["rules_all"]
    assert found["growth_1k_to_3k"] == pytest.approx(many["cpu_us_per_request"] / few["cpu_us_per_request"], abs=0.01)
    assert sum(advanced) == pytest.approx(bench.STEPS)


def test_a_router_that_ends_is_said_so(bench, monkeypatch):
    monkeypatch.setattr(bench, "NETWORK", "random:20x0")  # no host, so nobody to publish
    with pytest.raises(AssertionError, match="the process of a router has ended"):
        bench.standing(lambda _: None)


def test_the_page_names_the_figures():
    page = (FILE.parents[1] / "docs" / "performance.md").read_text(encoding="utf-8")
    for name in ("cpu_us_per_request", "rss_mb_per_1000", "growth_10k_to_1m"):
        assert f"`{name}`" in page
