"""All figures that can be repeated, by name. The settings of each scenario are here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from pleroma.experiments.dimension_sweep import Sweep, alike, beats, every, helps, not_worse
from pleroma.experiments.report import Report
from pleroma.experiments.subscription_sweep import SubscriptionSweep, adaptive_never_wastes_more, adaptive_wastes_less
from pleroma.workloads import EXPRESSIVE, THESIS

IPV4_BITS = 23
THESIS_BITS = 24

# papers/000..., VI: independent events would hardly meet narrow boxes in eight dimensions, so they lie inside
_EXPRESSIVE = replace(EXPRESSIVE, subscriptions=1_000, events=20_000, width=0.2, placement="inside")
_THESIS = replace(THESIS, subscriptions=1_000, events=20_000)
_ZIPFIAN = replace(_THESIS, distribution="zipfian")
_CORRELATED = replace(_EXPRESSIVE, distribution="zipfian", correlation="positive", pairs=3)

_CORRELATION = ("evs", "pcs-cev", "pfs-cev", "sms", "pcs-cmm", "pfs-cmm", "sfs", "pcs-cfm", "pfs-cfm")

_COUNTS = (100, 200, 400, 1_000, 2_000, 4_000, 10_000)


class Figure(Protocol):
    """Anything that can be repeated."""

    @property
    def figure(self) -> str: ...

    @property
    def title(self) -> str: ...

    def run(self, quick: bool, advance: Callable[[float], None]) -> Report: ...


_ALL: tuple[Sweep | SubscriptionSweep, ...] = (
    SubscriptionSweep(
        "fig11c",
        "Expressive Routing, figure 11(c): adaptive splits, uniform",
        _EXPRESSIVE,
        IPV4_BITS,
        _COUNTS,
        {
            "adaptive splits waste no more than regular ones, at any size": adaptive_never_wastes_more,
            "adaptive splits waste clearly less": adaptive_wastes_less,
        },
    ),
    SubscriptionSweep(
        "fig11d",
        "Expressive Routing, figure 11(d): adaptive splits, zipfian",
        replace(_EXPRESSIVE, distribution="zipfian"),
        IPV4_BITS,
        _COUNTS,
        {
            "adaptive splits waste no more than regular ones, at any size": adaptive_never_wastes_more,
            "adaptive splits waste clearly less": adaptive_wastes_less,
        },
    ),
    Sweep(
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
    Sweep(
        "fig12b",
        "Expressive Routing, figure 12(b): uniform variance, random selectivity",
        replace(_EXPRESSIVE, selectivity="random"),
        IPV4_BITS,
        ("evs", "emcs", "random"),
        {"EMCS beats EVS when variances are alike": beats("emcs", "evs", 0.01)},
    ),
    Sweep(
        "fig12c",
        "Expressive Routing, figure 12(c): high correlation",
        _CORRELATED,
        IPV4_BITS,
        ("emcs", "cs"),
        {"CS beats EMCS under high correlation": beats("cs", "emcs")},
    ),
    Sweep(
        "fig12d",
        "Expressive Routing, figure 12(d): low correlation",
        replace(_CORRELATED, pairs=1, correlation_strength=0.2),
        IPV4_BITS,
        ("emcs", "cs"),
        {"CS is not worse than EMCS under low correlation": not_worse("cs", "emcs")},
    ),
    Sweep(
        "fig12e",
        "Expressive Routing, figure 12(e): greedy under high correlation",
        _CORRELATED,
        IPV4_BITS,
        ("cs", "gs"),
        {"GS beats CS even under high correlation": beats("gs", "cs")},
    ),
    Sweep(
        "fig12f",
        "Expressive Routing, figure 12(f): greedy and brute force, uniform",
        replace(_EXPRESSIVE, variance="random"),
        IPV4_BITS,
        ("gs", "brs"),
        {"GS is within a point of brute force": not_worse("gs", "brs")},
    ),
    Sweep(
        "fig12g",
        "Expressive Routing, figure 12(g): greedy and brute force, zipfian",
        replace(_EXPRESSIVE, distribution="zipfian", variance="random"),
        IPV4_BITS,
        ("gs", "brs"),
        {"GS is within a point of brute force": not_worse("gs", "brs")},
    ),
    Sweep(
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
    Sweep(
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
    Sweep(
        "thesis-5.5",
        "Bachelor's thesis, figure 5.5: zipfian, random selectivity (our random variance)",
        replace(_ZIPFIAN, variance="random"),
        THESIS_BITS,
        ("evs", "random"),
        {"EVS is about as good as random selection, since it cannot see inside buckets": alike("evs", "random")},
    ),
    Sweep(
        "thesis-5.8",
        "Bachelor's thesis, figure 5.8: uniform, constant selectivity",
        _THESIS,
        THESIS_BITS,
        ("evs", "random"),
        {"EVS is about as good as random selection": alike("evs", "random")},
    ),
    Sweep(
        "thesis-5.9",
        "Bachelor's thesis, figure 5.9: zipfian, constant selectivity",
        _ZIPFIAN,
        THESIS_BITS,
        ("evs", "random"),
        {"EVS is about as good as random selection": alike("evs", "random")},
    ),
    Sweep(
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
    Sweep(
        "thesis-5.12",
        "Bachelor's thesis, figure 5.12: SMS and SFS, uniform",
        replace(_THESIS, variance="random"),
        THESIS_BITS,
        ("sms", "sfs"),
        {"SMS and SFS are about as good": alike("sms", "sfs")},
    ),
    Sweep(
        "thesis-5.13",
        "Bachelor's thesis, figure 5.13: SMS and SFS, zipfian",
        replace(_ZIPFIAN, variance="random"),
        THESIS_BITS,
        ("sms", "sfs"),
        {"SMS and SFS are about as good": alike("sms", "sfs")},
    ),
    Sweep(
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
    Sweep(
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
    Sweep(
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
)

FIGURES: Mapping[str, Figure] = {each.figure: each for each in _ALL}
