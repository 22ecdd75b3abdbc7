"""The figures of Bhowmik et al. 2018, "Expressive Content-Based Routing in Software-Defined Networks"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pleroma.experiments.figures.additional_rules import AdditionalRules
from pleroma.experiments.figures.dimension_sweep import (
    Claim,
    DimensionSweep,
    alike,
    beats,
    every,
    helps,
    not_worse,
    reduces,
)
from pleroma.experiments.figures.run_times import RunTimes, fastest, slowest
from pleroma.experiments.figures.subscription_sweep import (
    SubscriptionSweep,
    gains_most_with_few,
    never_wastes_more,
    wastes_less,
)
from pleroma.experiments.figures.waste_over_time import WasteOverTime
from pleroma.experiments.report import PublishedValue
from pleroma.experiments.workload_source import Source
from pleroma.workloads import EXPRESSIVE, Model, StockModel

IPV4_BITS = 23
IPV6_BITS = 40

# section VI: independent events would hardly meet narrow boxes in eight dimensions, so they lie inside
_MODEL = replace(EXPRESSIVE, subscriptions=1_000, events=20_000, width=0.2, placement="inside")
_HOTSPOTS = replace(_MODEL, distribution="zipfian")
_CORRELATED = replace(_HOTSPOTS, correlation="positive", pairs=3)

_SUBSCRIPTIONS = (100, 200, 400, 1_000, 2_000, 4_000, 10_000)


def _named(number: str, about: str) -> tuple[str, str]:
    """The name and the title of a figure."""
    return f"fig{number.replace('(', '').replace(')', '')}", f"Expressive Routing, figure {number}: {about}"


def _dimensions(
    number: str,
    about: str,
    source: Source,
    techniques: tuple[str, ...],
    claims: Mapping[str, Claim],
    published: tuple[PublishedValue, ...] = (),
) -> DimensionSweep:
    return DimensionSweep(*_named(number, about), source, IPV4_BITS, techniques, claims, published)


def _selective(number: str, about: str, model: Model, claims: Mapping[str, Claim]) -> SubscriptionSweep:
    splits = ("selective", "repeated")
    return SubscriptionSweep(*_named(number, about), model, IPV4_BITS, splits, _SUBSCRIPTIONS, claims)


def _adaptive(number: str, about: str, model: Model) -> SubscriptionSweep:
    claims = {
        "adaptive splits waste no more than regular ones, at any size": never_wastes_more("adaptive"),
        "adaptive splits waste clearly less": wastes_less("adaptive"),
    }
    return SubscriptionSweep(*_named(number, about), model, IPV4_BITS, ("adaptive",), _SUBSCRIPTIONS, claims)


def _greedy_and_brute_force(number: str, about: str, model: Model) -> DimensionSweep:
    claims = {"GS is within a point of brute force": not_worse("gs", "brs")}
    return _dimensions(number, about, replace(model, variance="random"), ("gs", "brs"), claims)


def _run_times(number: str, about: str, sizes: tuple[tuple[int, int], ...], x: str) -> RunTimes:
    claims = {"EVS takes least": fastest("evs"), "GS takes most": slowest("gs")}
    return RunTimes(*_named(number, about), _MODEL, IPV4_BITS, ("evs", "emcs", "cs", "gs"), sizes, x, claims)


EXPRESSIVE_FIGURES = (
    _selective(
        "11(a)",
        "selective indexing, uniform",
        _MODEL,
        {
            "selective indexing wastes no more than regular, at any size": never_wastes_more("repeated"),
            "selective indexing wastes clearly less": wastes_less("repeated"),
        },
    ),
    _selective(
        "11(b)",
        "selective indexing, zipfian",
        _HOTSPOTS,
        {
            "selective indexing wastes clearly less than regular": wastes_less("repeated"),
            "the gain is largest with few subscriptions": gains_most_with_few("repeated"),
            "it still does when no event is sent twice": wastes_less("selective"),
        },
    ),
    _adaptive("11(c)", "adaptive splits, uniform", _MODEL),
    _adaptive("11(d)", "adaptive splits, zipfian", _HOTSPOTS),
    _dimensions(
        "12(a)",
        "random variance",
        replace(_MODEL, variance="random"),
        ("evs", "random"),
        {
            "EVS beats random selection when variances differ, and fewer dimensions waste less": every(
                beats("evs", "random", 0.01), helps("evs")
            )
        },
    ),
    _dimensions(
        "12(b)",
        "uniform variance, random selectivity",
        replace(_MODEL, selectivity="random"),
        ("evs", "emcs", "random"),
        {"EMCS beats EVS when variances are alike": beats("emcs", "evs", 0.01)},
    ),
    _dimensions(
        "12(c)",
        "high correlation",
        _CORRELATED,
        ("emcs", "cs"),
        {"CS beats EMCS under high correlation": beats("cs", "emcs")},
    ),
    _dimensions(
        "12(d)",
        "low correlation",
        replace(_CORRELATED, pairs=1, correlation_strength=0.2),
        ("emcs", "cs"),
        {"CS is not worse than EMCS under low correlation": not_worse("cs", "emcs")},
    ),
    _dimensions(
        "12(e)",
        "greedy under high correlation",
        _CORRELATED,
        ("cs", "gs"),
        {"GS beats CS even under high correlation": beats("gs", "cs")},
    ),
    _greedy_and_brute_force("12(f)", "greedy and brute force, uniform", _MODEL),
    _greedy_and_brute_force("12(g)", "greedy and brute force, zipfian", _HOTSPOTS),
    _dimensions(
        "14(a)",
        "selection with adaptive splits, zipfian, random selectivity",
        replace(_HOTSPOTS, selectivity="random"),
        ("cs", "cs+asi", "gs", "gs+asi"),
        {
            "adaptive splits improve both CS and GS (the paper: from 80% to 3.33%)": every(
                beats("cs+asi", "cs"), beats("gs+asi", "gs")
            )
        },
        (
            PublishedValue("paper, regular", 0.8, EXPRESSIVE.dimensions),
            PublishedValue("paper, gs+asi at best", 0.0333),
        ),
    ),
    _dimensions(
        "14(b)",
        "selection with selective indexing, stock quotes",
        StockModel(),
        ("gs", "evs+si", "cs+si", "gs+si", "gs+si1"),
        {
            "EVS with selective indexing takes away about half of the waste (the paper: 48%)": reduces(
                "evs+si", 0.45, "gs"
            ),
            "GS with selective indexing takes away about half of the waste (the paper: 53%)": reduces(
                "gs+si", 0.45, "gs"
            ),
            "selective indexing makes EVS, CS and GS alike": every(
                alike("evs+si", "gs+si", 0.05), alike("cs+si", "gs+si", 0.05)
            ),
        },
    ),
    AdditionalRules(
        *_named("10", "rules that a change of plans adds for a while"),
        replace(_MODEL, width=0.02),
        IPV6_BITS,
        (25, 50, 100, 200, 400, 1_000),
    ),
    WasteOverTime(
        *_named("14(c)", "waste over time, while traffic shifts"),
        replace(_MODEL, variance="random", selective=3, subscriptions=100, width=0.1),
        IPV4_BITS,
        "cs",
        3,
        400,
    ),
    _run_times(
        "13(a)",
        "run time by number of events, 1,000 subscriptions",
        ((1_000, 20_000), (1_000, 40_000), (1_000, 60_000), (1_000, 80_000), (1_000, 100_000)),
        "events",
    ),
    _run_times(
        "13(b)",
        "run time by number of subscriptions, 100,000 events",
        ((200, 100_000), (400, 100_000), (600, 100_000), (800, 100_000), (1_000, 100_000)),
        "subscriptions",
    ),
)
