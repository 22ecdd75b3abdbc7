from dataclasses import replace

import pytest

from pleroma.errors import WorkloadError
from pleroma.workloads import EXPRESSIVE, PLEROMA, PRESETS, THESIS


def test_presets_have_the_domains_of_the_papers():
    sizes = {name: (model.dimensions, model.low, model.high) for name, model in PRESETS.items()}
    assert sizes == {"pleroma": (10, 0, 1023), "expressive": (8, 0, 4095), "thesis": (8, 0, 10_000)}


def test_only_the_thesis_puts_events_inside_subscriptions():
    assert [model.placement for model in (PLEROMA, EXPRESSIVE, THESIS)] == ["independent", "independent", "inside"]


@pytest.mark.parametrize(
    ("settings", "field", "words"),
    [
        ({"dimensions": 0}, "dimensions", "at least 1"),
        ({"dimensions": 2.0}, "dimensions", "whole number"),
        ({"dimensions": True}, "dimensions", "whole number"),
        ({"low": 5, "high": 4}, "high", "[5, 4] is empty"),
        ({"high": 2**53}, "high", "must be from"),
        ({"low": "0"}, "low", "'0' is not a whole number"),
        ({"subscriptions": -1}, "subscriptions", "at least 0"),
        ({"events": -1}, "events", "at least 0"),
        ({"events": 10**12}, "events", "100,000,000"),
        ({"distribution": "normal"}, "distribution", "uniform, zipfian"),
        ({"hotspots": 0}, "hotspots", "from 1 to 8"),
        ({"hotspots": 9}, "hotspots", "from 1 to 8"),
        ({"exponent": -1}, "exponent", "at least 0"),
        ({"exponent": float("inf")}, "exponent", "finite"),
        ({"exponent": 10**400}, "exponent", "finite"),
        ({"width": 0}, "width", "more than 0"),
        ({"width": 1.1}, "width", "from 0 to 1"),
        ({"width": float("nan")}, "width", "finite"),
        ({"selectivity": "some"}, "selectivity", "fixed, random"),
        ({"variance": None}, "variance", "fixed, random"),
        ({"selective": 2}, "selective", "variance"),
        ({"selective": 9, "variance": "random"}, "selective", "from 0 to 8"),
        ({"correlation": "high"}, "correlation", "positive, inverse, random"),
        ({"correlation": "positive", "dimensions": 1}, "correlation", "one dimension"),
        ({"correlation_strength": 1.5}, "correlation_strength", "from 0 to 1"),
        ({"pairs": 2}, "pairs", "needs a correlation"),
        ({"pairs": 5, "correlation": "random"}, "pairs", "from 0 to 4"),
        ({"placement": "outside"}, "placement", "inside, independent"),
        ({"subscriptions": 0, "placement": "inside"}, "subscriptions", "at least one"),
        ({"seed": -1}, "seed", "at least 0"),
        ({"seed": 1.0}, "seed", "whole number"),
    ],
)
def test_an_impossible_setting_gets_one_clear_error(settings, field, words):
    with pytest.raises(WorkloadError) as caught:
        replace(EXPRESSIVE, **settings)
    assert caught.value.field == field
    assert caught.value.value == settings.get(field) or caught.value.value != caught.value.value
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"subscriptions": 0},
        {"events": 0},
        {"dimensions": 1},
        {"low": 7, "high": 7},
        {"width": 1},
        {"exponent": 0},
        {"hotspots": 8},
    ],
)
def test_the_ends_of_what_is_allowed_are_allowed(settings):
    allowed = replace(EXPRESSIVE, **settings)
    assert {name: getattr(allowed, name) for name in settings} == settings
