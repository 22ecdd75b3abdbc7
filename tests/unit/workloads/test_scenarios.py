"""The scenarios of the papers, each in the settings that express it."""

from dataclasses import asdict, replace

import pytest

from pleroma.workloads import EXPRESSIVE, PLEROMA, THESIS, generate

SCENARIOS = {
    "003 5.2: uniform, random selectivity": replace(THESIS, variance="random"),
    "003 5.4: zipfian, random selectivity": replace(THESIS, distribution="zipfian", variance="random"),
    "003 5.6: uniform, uniform selectivity": THESIS,
    "003 5.7: zipfian, uniform selectivity": replace(THESIS, distribution="zipfian"),
    "003 5.10: random selectivity of subscriptions, constant variance of events": replace(THESIS, selectivity="random"),
    "003 5.14: 90 % correlation": replace(THESIS, distribution="zipfian", correlation="positive"),
    "003 5.16: 90 % inverse correlation": replace(THESIS, distribution="zipfian", correlation="inverse"),
    "003 5.17: random correlation": replace(THESIS, distribution="zipfian", variance="random", correlation="random"),
    "003 5.25: two selective dimensions": replace(THESIS, variance="random", selective=2),
    "003 5.28: four, zipfian": replace(THESIS, distribution="zipfian", variance="random", selective=4),
    "000 11a: uniform": EXPRESSIVE,
    "000 11b: zipfian": replace(EXPRESSIVE, distribution="zipfian"),
    "000 12a: random variance factor": replace(EXPRESSIVE, variance="random"),
    "000 12b: uniform variance factor": replace(EXPRESSIVE, selectivity="random"),
    "000 12c: high correlation factor": replace(EXPRESSIVE, correlation="positive", pairs=3),
    "000 12d: low correlation factor": replace(EXPRESSIVE, correlation="positive", correlation_strength=0.2, pairs=1),
    "000 14a: zipfian, random selectivity factor": replace(EXPRESSIVE, distribution="zipfian", selectivity="random"),
    "004 8d: uniform": PLEROMA,
    "004 8d: zipfian, eight hotspots": replace(PLEROMA, distribution="zipfian", hotspots=8),
    "004 8e: variance restricted along certain dimensions": replace(
        PLEROMA, distribution="zipfian", variance="random", selective=4
    ),
    "004 8g: control requests only": replace(PLEROMA, distribution="zipfian", events=0, subscriptions=2000),
    "001 6: three dimensions, 400 requests": replace(PLEROMA, dimensions=3, subscriptions=400, events=0),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_of_the_papers_can_be_made(name):
    model = SCENARIOS[name]
    workload = generate(model)
    assert (len(workload.subscriptions), len(workload.events)) == (model.subscriptions, model.events)
    assert workload.description["settings"] == asdict(model)


def test_no_two_scenarios_are_the_same():
    assert len({repr(model) for model in SCENARIOS.values()}) == len(SCENARIOS)
