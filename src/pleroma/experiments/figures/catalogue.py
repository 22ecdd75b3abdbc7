"""All figures that can be repeated, by name. The settings of each scenario are here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from pleroma.experiments.figures.count_choice import CountChoice, finds_the_best, within_one
from pleroma.experiments.figures.dimension_sweep import DimensionSweep, alike, beats, every, helps, not_worse, reduces
from pleroma.experiments.figures.latency import LatencyFigure, hardly_grow
from pleroma.experiments.figures.length_sweep import LengthSweep, falls_with_length, falls_with_subscriptions
from pleroma.experiments.figures.plan_changes import AdditionalRules, WasteOverTime
from pleroma.experiments.figures.run_times import RunTimes, ThesisRunTimes, faster_than_the_thesis, fastest, slowest
from pleroma.experiments.figures.subscription_sweep import (
    SubscriptionSweep,
    gains_most_with_few,
    never_wastes_more,
    wastes_less,
)
from pleroma.experiments.figures.tama_figures import TAMA_FIGURES
from pleroma.experiments.frontier.frontier import FRONTIER_BY_WIDTH, Frontier
from pleroma.experiments.report import FigureReport
from pleroma.experiments.scenarios import Performer, one_by_one
from pleroma.experiments.workload_source import Source
from pleroma.workloads import EXPRESSIVE, PLEROMA, THESIS, Model, StockModel

IPV4_BITS = 23
IPV6_BITS = 40
THESIS_BITS = 24

# Bhowmik et al. 2018, VI: independent events would hardly meet narrow boxes in eight dimensions, so they lie inside
_EXPRESSIVE = replace(EXPRESSIVE, subscriptions=1_000, events=20_000, width=0.2, placement="inside")
_THESIS = replace(THESIS, subscriptions=1_000, events=20_000)
_ZIPFIAN = replace(_THESIS, distribution="zipfian")
_CORRELATED = replace(_EXPRESSIVE, distribution="zipfian", correlation="positive", pairs=3)

_CORRELATION = ("evs", "pcs-cev", "pfs-cev", "sms", "pcs-cmm", "pfs-cmm", "sfs", "pcs-cfm", "pfs-cfm")

_STOCK = StockModel()

_COUNTS = (100, 200, 400, 1_000, 2_000, 4_000, 10_000)


class Figure(Protocol):
    """Anything that can be repeated."""

    @property
    def figure(self) -> str: ...

    @property
    def title(self) -> str: ...

    def run(self, quick: bool, advance: Callable[[float], None]) -> FigureReport: ...


class SweepFigure(Figure, Protocol):
    """One of independent scenarios, which may be gone through elsewhere."""

    def run(self, quick: bool, advance: Callable[[float], None], perform: Performer = one_by_one) -> FigureReport: ...


def _sizes(model: Model) -> dict[str, Source]:
    """The thesis's two numbers of subscriptions."""
    return {"400": replace(model, subscriptions=400), "1,000": model}


_COMPARED = ("evs", "sfs", "pcs-cfm", "ges")


def _greedy_is_best(others: tuple[str, ...]) -> dict[str, Callable[[Mapping[str, list[float]]], bool]]:
    pairs = [(f"ges, {size}", f"{other}, {size}") for size in ("400", "1,000") for other in others]
    return {
        "GES is the best of the four, with 400 and with 1,000 subscriptions": every(*(not_worse(*p) for p in pairs))
    }


def _with_and_without(technique: str, few: int, many: int) -> DimensionSweep:
    number = {"sfs": "5.29", "ges": "5.30"}[technique]
    split = f"{technique}+asi"
    return DimensionSweep(
        f"thesis-{number}",
        f"Bachelor's thesis, figure {number}: {technique.upper()} with and without improved partitioning, zipfian",
        _sizes(replace(_ZIPFIAN, variance="random")),
        THESIS_BITS,
        (technique, split),
        {
            "improved partitioning reduces waste again": every(
                *(beats(f"{split}, {size}", f"{technique}, {size}") for size in ("400", "1,000"))
            ),
            f"about three quarters of the waste is gone with 400 subscriptions (the thesis: 88% to {few}%)": reduces(
                f"{split}, 400", 0.7, f"{technique}, 400"
            ),
            f"about three fifths with 1,000 (the thesis: 95% to {many}%)": reduces(
                f"{split}, 1,000", 0.55, f"{technique}, 1,000"
            ),
        },
    )


def _automatic(number: str, distribution: str, selective: int, exact: bool) -> CountChoice:
    scenario = f"{distribution} distribution, {('no', 'one', 'two', 'three', 'four')[selective]} selective dimensions"
    base = _ZIPFIAN if distribution == "zipfian" else _THESIS
    claims = {"GES with automatic count finds the best count": finds_the_best("ges")}
    if exact:
        claims["eigenvalues with SFS find the best count"] = finds_the_best("sfs")
    else:
        claims["eigenvalues with SFS find the best count or one beside it"] = within_one("sfs")
    return CountChoice(
        f"thesis-{number}",
        f"Bachelor's thesis, figure {number}: automatic dimension count, {scenario}",
        replace(base, variance="random", selective=selective),
        THESIS_BITS,
        claims,
    )


_ALL: tuple[Figure, ...] = (
    SubscriptionSweep(
        "fig11a",
        "Expressive Routing, figure 11(a): selective indexing, uniform",
        _EXPRESSIVE,
        IPV4_BITS,
        ("selective", "repeated"),
        _COUNTS,
        {
            "selective indexing wastes no more than regular, at any size": never_wastes_more("repeated"),
            "selective indexing wastes clearly less": wastes_less("repeated"),
        },
    ),
    SubscriptionSweep(
        "fig11b",
        "Expressive Routing, figure 11(b): selective indexing, zipfian",
        replace(_EXPRESSIVE, distribution="zipfian"),
        IPV4_BITS,
        ("selective", "repeated"),
        _COUNTS,
        {
            "selective indexing wastes clearly less than regular": wastes_less("repeated"),
            "the gain is largest with few subscriptions": gains_most_with_few("repeated"),
            "it still does when no event is sent twice": wastes_less("selective"),
        },
    ),
    SubscriptionSweep(
        "fig11c",
        "Expressive Routing, figure 11(c): adaptive splits, uniform",
        _EXPRESSIVE,
        IPV4_BITS,
        ("adaptive",),
        _COUNTS,
        {
            "adaptive splits waste no more than regular ones, at any size": never_wastes_more("adaptive"),
            "adaptive splits waste clearly less": wastes_less("adaptive"),
        },
    ),
    SubscriptionSweep(
        "fig11d",
        "Expressive Routing, figure 11(d): adaptive splits, zipfian",
        replace(_EXPRESSIVE, distribution="zipfian"),
        IPV4_BITS,
        ("adaptive",),
        _COUNTS,
        {
            "adaptive splits waste no more than regular ones, at any size": never_wastes_more("adaptive"),
            "adaptive splits waste clearly less": wastes_less("adaptive"),
        },
    ),
    DimensionSweep(
        "fig12a",
        "Expressive Routing, figure 12(a): random variance",
        replace(_EXPRESSIVE, variance="random"),
        IPV4_BITS,
        ("evs", "random"),
        {
            "EVS beats random selection when variances differ, and fewer dimensions waste less": every(
                beats("evs", "random", 0.01), helps("evs")
            )
        },
    ),
    DimensionSweep(
        "fig12b",
        "Expressive Routing, figure 12(b): uniform variance, random selectivity",
        replace(_EXPRESSIVE, selectivity="random"),
        IPV4_BITS,
        ("evs", "emcs", "random"),
        {"EMCS beats EVS when variances are alike": beats("emcs", "evs", 0.01)},
    ),
    DimensionSweep(
        "fig12c",
        "Expressive Routing, figure 12(c): high correlation",
        _CORRELATED,
        IPV4_BITS,
        ("emcs", "cs"),
        {"CS beats EMCS under high correlation": beats("cs", "emcs")},
    ),
    DimensionSweep(
        "fig12d",
        "Expressive Routing, figure 12(d): low correlation",
        replace(_CORRELATED, pairs=1, correlation_strength=0.2),
        IPV4_BITS,
        ("emcs", "cs"),
        {"CS is not worse than EMCS under low correlation": not_worse("cs", "emcs")},
    ),
    DimensionSweep(
        "fig12e",
        "Expressive Routing, figure 12(e): greedy under high correlation",
        _CORRELATED,
        IPV4_BITS,
        ("cs", "gs"),
        {"GS beats CS even under high correlation": beats("gs", "cs")},
    ),
    DimensionSweep(
        "fig12f",
        "Expressive Routing, figure 12(f): greedy and brute force, uniform",
        replace(_EXPRESSIVE, variance="random"),
        IPV4_BITS,
        ("gs", "brs"),
        {"GS is within a point of brute force": not_worse("gs", "brs")},
    ),
    DimensionSweep(
        "fig12g",
        "Expressive Routing, figure 12(g): greedy and brute force, zipfian",
        replace(_EXPRESSIVE, distribution="zipfian", variance="random"),
        IPV4_BITS,
        ("gs", "brs"),
        {"GS is within a point of brute force": not_worse("gs", "brs")},
    ),
    DimensionSweep(
        "fig14a",
        "Expressive Routing, figure 14(a): selection with adaptive splits, zipfian, random selectivity",
        replace(_EXPRESSIVE, distribution="zipfian", selectivity="random"),
        IPV4_BITS,
        ("cs", "cs+asi", "gs", "gs+asi"),
        {
            "adaptive splits improve both CS and GS (the paper: from 80% to 3.33%)": every(
                beats("cs+asi", "cs"), beats("gs+asi", "gs")
            )
        },
    ),
    DimensionSweep(
        "fig14b",
        "Expressive Routing, figure 14(b): selection with selective indexing, stock quotes",
        _STOCK,
        IPV4_BITS,
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
        "fig10",
        "Expressive Routing, figure 10: rules that a change of plans adds for a while",
        replace(_EXPRESSIVE, width=0.02),
        IPV6_BITS,
        (25, 50, 100, 200, 400, 1_000),
    ),
    WasteOverTime(
        "fig14c",
        "Expressive Routing, figure 14(c): waste over time, while traffic shifts",
        replace(_EXPRESSIVE, variance="random", selective=3, subscriptions=100, width=0.1),
        IPV4_BITS,
        "cs",
        3,
        400,
    ),
    RunTimes(
        "fig13a",
        "Expressive Routing, figure 13(a): run time by number of events, 1,000 subscriptions",
        _EXPRESSIVE,
        IPV4_BITS,
        ("evs", "emcs", "cs", "gs"),
        ((1_000, 20_000), (1_000, 40_000), (1_000, 60_000), (1_000, 80_000), (1_000, 100_000)),
        "events",
        {"EVS takes least": fastest("evs"), "GS takes most": slowest("gs")},
    ),
    RunTimes(
        "fig13b",
        "Expressive Routing, figure 13(b): run time by number of subscriptions, 100,000 events",
        _EXPRESSIVE,
        IPV4_BITS,
        ("evs", "emcs", "cs", "gs"),
        ((200, 100_000), (400, 100_000), (600, 100_000), (800, 100_000), (1_000, 100_000)),
        "subscriptions",
        {"EVS takes least": fastest("evs"), "GS takes most": slowest("gs")},
    ),
    LatencyFigure(
        "fig8a",
        "PLEROMA article, figure 8(a): end-to-end delay on real switches",
        "testbed",
        {name: replace(PLEROMA, width=0.1, distribution=name) for name in ("uniform", "zipfian")},
        (1_000, 4_000, 16_000),
        800,
        {"the number of subscriptions hardly matters (less than 1.2 times the delay)": hardly_grow(1.2)},
    ),
    LengthSweep(
        "fig8d",
        "PLEROMA article, figure 8(d): waste by the length of a dz",
        {
            "uniform": replace(PLEROMA, events=10_000),
            "zipfian": replace(PLEROMA, events=10_000, distribution="zipfian"),
        },
        (5, 10, 15, 20, 25, 30),
        (100, 400, 1_600),
        {
            "the longer the dz, the less waste": falls_with_length,
            "with more subscriptions on the same hosts there is less waste": falls_with_subscriptions,
        },
    ),
    DimensionSweep(
        "fig8e",
        "PLEROMA article, figure 8(e): dimension selection, three zipfian workloads of restricted variance",
        {
            f"{n} of 10 vary": replace(
                PLEROMA, events=20_000, distribution="zipfian", variance="random", selective=n, placement="inside"
            )
            for n in (2, 4, 6)
        },
        IPV4_BITS,
        ("evs",),
        {"fewer dimensions waste less": every(*(helps(f"evs, {n} of 10 vary", 0.02) for n in (2, 4, 6)))},
    ),
    DimensionSweep(
        "fig8f",
        "PLEROMA article, figure 8(f): dimension selection on stock quotes",
        _STOCK,
        IPV4_BITS,
        ("evs", "cs", "gs"),
        {"fewer dimensions waste less, with every technique": every(helps("evs"), helps("cs"), helps("gs"))},
    ),
    DimensionSweep(
        "thesis-5.3",
        "Bachelor's thesis, figure 5.3: uniform, random selectivity (our random variance)",
        replace(_THESIS, variance="random"),
        THESIS_BITS,
        ("evs", "random"),
        {
            "EVS reduces waste clearly and random selection does not": every(
                helps("evs", 0.05), beats("evs", "random", 0.05)
            )
        },
    ),
    DimensionSweep(
        "thesis-5.5",
        "Bachelor's thesis, figure 5.5: zipfian, random selectivity (our random variance)",
        replace(_ZIPFIAN, variance="random"),
        THESIS_BITS,
        ("evs", "random"),
        {"EVS is about as good as random selection, since it cannot see inside buckets": alike("evs", "random")},
    ),
    DimensionSweep(
        "thesis-5.8",
        "Bachelor's thesis, figure 5.8: uniform, constant selectivity",
        _THESIS,
        THESIS_BITS,
        ("evs", "random"),
        {"EVS is about as good as random selection": alike("evs", "random")},
    ),
    DimensionSweep(
        "thesis-5.9",
        "Bachelor's thesis, figure 5.9: zipfian, constant selectivity",
        _ZIPFIAN,
        THESIS_BITS,
        ("evs", "random"),
        {"EVS is about as good as random selection": alike("evs", "random")},
    ),
    DimensionSweep(
        "thesis-5.11",
        "Bachelor's thesis, figure 5.11: random selectivity, constant event variance",
        replace(_THESIS, selectivity="random", subscriptions=400),
        THESIS_BITS,
        ("evs", "sos", "sms"),
        {
            "SMS beats EVS, which cannot tell dimensions of equal variance apart, and SOS": every(
                beats("sms", "evs"), beats("sms", "sos")
            ),
            "SOS improves on EVS": beats("sos", "evs"),
        },
    ),
    DimensionSweep(
        "thesis-5.12",
        "Bachelor's thesis, figure 5.12: SMS and SFS, uniform",
        replace(_THESIS, variance="random"),
        THESIS_BITS,
        ("sms", "sfs"),
        {"SMS and SFS are about as good": alike("sms", "sfs")},
    ),
    DimensionSweep(
        "thesis-5.13",
        "Bachelor's thesis, figure 5.13: SMS and SFS, zipfian",
        replace(_ZIPFIAN, variance="random"),
        THESIS_BITS,
        ("sms", "sfs"),
        {"SMS and SFS are about as good": alike("sms", "sfs")},
    ),
    DimensionSweep(
        "thesis-5.15",
        "Bachelor's thesis, figure 5.15: correlation 90%",
        replace(_ZIPFIAN, correlation="positive"),
        THESIS_BITS,
        _CORRELATION,
        {
            "PFS over CEV and PCS over CFM beat the selections that do not look for correlation": every(
                *(beats(good, plain) for good in ("pfs-cev", "pcs-cfm") for plain in ("evs", "sms", "sfs"))
            )
        },
    ),
    DimensionSweep(
        "thesis-5.16",
        "Bachelor's thesis, figure 5.16: inverse correlation 90%",
        replace(_ZIPFIAN, correlation="inverse"),
        THESIS_BITS,
        _CORRELATION,
        {
            "PFS and PCS over CFM beat the selections that do not look for correlation": every(
                beats("pfs-cev", "evs"), beats("pfs-cmm", "sms"), beats("pfs-cfm", "sfs"), beats("pcs-cfm", "sfs")
            )
        },
    ),
    DimensionSweep(
        "thesis-5.18",
        "Bachelor's thesis, figure 5.18: random correlation, random selectivity",
        replace(_ZIPFIAN, variance="random", correlation="random"),
        THESIS_BITS,
        _CORRELATION,
        {
            "SMS, SFS and PCS over CMM or CFM are good; PFS and all that look only at events are worse": every(
                *(
                    beats(good, bad)
                    for good in ("sms", "sfs", "pcs-cmm", "pcs-cfm")
                    for bad in ("evs", "pcs-cev", "pfs-cev", "pfs-cmm", "pfs-cfm")
                )
            )
        },
    ),
    DimensionSweep(
        "thesis-5.20",
        "Bachelor's thesis, figure 5.20: greedy and brute force, uniform and zipfian, random selectivity",
        {"uniform": replace(_THESIS, variance="random"), "zipfian": replace(_ZIPFIAN, variance="random")},
        THESIS_BITS,
        ("ges", "bes"),
        {
            "brute force is less than a point better than greedy": every(
                *(not_worse(f"ges, {d}", f"bes, {d}") for d in ("uniform", "zipfian"))
            )
        },
    ),
    DimensionSweep(
        "thesis-5.21",
        "Bachelor's thesis, figure 5.21: comparison, uniform, random selectivity",
        _sizes(replace(_THESIS, variance="random")),
        THESIS_BITS,
        _COMPARED,
        _greedy_is_best(_COMPARED[:-1])
        | {
            "all four are about as good": every(
                *(alike(f"{one}, {size}", f"ges, {size}") for one in _COMPARED[:-1] for size in ("400", "1,000"))
            )
        },
    ),
    DimensionSweep(
        "thesis-5.22",
        "Bachelor's thesis, figure 5.22: comparison, zipfian, random selectivity",
        _sizes(replace(_ZIPFIAN, variance="random")),
        THESIS_BITS,
        _COMPARED,
        _greedy_is_best(_COMPARED[:-1]),
    ),
    DimensionSweep(
        "thesis-5.23",
        "Bachelor's thesis, figure 5.23: comparison, zipfian, constant selectivity, correlation 90%",
        _sizes(replace(_ZIPFIAN, correlation="positive")),
        THESIS_BITS,
        _COMPARED,
        _greedy_is_best(_COMPARED[:-1]),
    ),
    DimensionSweep(
        "thesis-5.24",
        "Bachelor's thesis, figure 5.24: comparison, zipfian, random selectivity, random correlation",
        _sizes(replace(_ZIPFIAN, variance="random", correlation="random")),
        THESIS_BITS,
        _COMPARED,
        _greedy_is_best(_COMPARED[:-1]),
    ),
    _automatic("5.25", "uniform", 2, exact=True),
    _automatic("5.26", "uniform", 4, exact=False),
    _automatic("5.27", "zipfian", 2, exact=True),
    _automatic("5.28", "zipfian", 4, exact=False),
    _with_and_without("sfs", 23, 39),
    _with_and_without("ges", 24, 42),
    ThesisRunTimes(
        "thesis-times",
        "Bachelor's thesis, chapter 5: run times",
        replace(_THESIS, variance="random"),
        THESIS_BITS,
        {"every technique is faster than the thesis reports": faster_than_the_thesis},
    ),
)

FIGURES: Mapping[str, Figure] = {each.figure: each for each in (*_ALL, *TAMA_FIGURES)}
"""What the papers show."""

EXPERIMENTS: Mapping[str, Figure] = {**FIGURES, **{each.figure: each for each in (Frontier(), FRONTIER_BY_WIDTH)}}
"""And what they do not."""

_SWEEPS = (DimensionSweep, SubscriptionSweep, LengthSweep, CountChoice, AdditionalRules, Frontier)

SWEEPS: Mapping[str, SweepFigure] = {name: each for name, each in EXPERIMENTS.items() if isinstance(each, _SWEEPS)}
"""All but those that measure this machine, or are one scenario."""
