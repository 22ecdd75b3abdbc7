"""What `pleroma bench service` measures of a host agent, in small: real packets through a real agent to programs."""

import asyncio
import importlib.util
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "_agent.py"


@pytest.fixture
def bench(monkeypatch):
    spec = importlib.util.spec_from_file_location("benchmarks._agent", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    small = {"AGENT_EVENT_RATES": (100,), "RATE_SECONDS": 0.5, "LATENCY_RATE": 100, "LATENCY_SECONDS": 0.5}
    for name, value in (small | {"PROGRAMS": (1, 3)}).items():
        monkeypatch.setattr(module, name, value)
    return module


def test_latency_and_events_are_measured_for_each_number_of_programs(bench):
    advanced = []
    found = asyncio.run(asyncio.wait_for(bench.figures(advanced.append), 90))
    assert set(found) == {
        "owner_p50_us", "owner_events_per_s",
        "agent_added_p50_us", "agent_added_p50_us_3",
        "agent_events_per_s_1", "agent_events_per_s_3",
    }  # fmt: skip
    assert found["owner_p50_us"] > 0
    rates = [found[name] for name in found if "events_per_s" in name]
    assert all(90 <= rate <= 110 for rate in rates), "no event was lost at this rate"
    assert len(advanced) == 3


def test_the_page_names_the_figures():
    page = (FILE.parents[1] / "docs" / "performance.md").read_text(encoding="utf-8")
    for name in ("owner_p50_us", "agent_added_p50_us", "agent_added_p50_us_10", "agent_events_per_s_1"):
        assert f"`{name}`" in page
