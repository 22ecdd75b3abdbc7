"""The figures of Grunert 2014, "Increasing the Bandwidth Efficiency of Content-based Routing", chapter 5."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pleroma.experiments.figures.count_choice import CountChoice, finds_the_best, within_one
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
from pleroma.experiments.figures.run_times import ThesisRunTimes, faster_than_the_thesis
from pleroma.experiments.report import PublishedValue
from pleroma.experiments.workload_source import Source
from pleroma.workloads import THESIS, Model

THESIS_BITS = 24

_UNIFORM = replace(THESIS, subscriptions=1_000, events=20_000)
_ZIPFIAN = replace(_UNIFORM, distribution="zipfian")
_UNIFORM_VARYING = replace(_UNIFORM, variance="random")
_ZIPFIAN_VARYING = replace(_ZIPFIAN, variance="random")

_SIZES = ("400", "1,000")
_LOOKING_FOR_CORRELATION = ("evs", "pcs-cev", "pfs-cev", "sms", "pcs-cmm", "pfs-cmm", "sfs", "pcs-cfm", "pfs-cfm")
_COMPARED = ("evs", "sfs", "pcs-cfm")
"""The selections that the thesis compares with GES."""


def _named(number: str, about: str) -> tuple[str, str]:
    """The name and the title of a figure."""
    return f"thesis-{number}", f"Bachelor's thesis, figure {number}: {about}"


def _sizes(model: Model) -> dict[str, Source]:
    """The thesis's two numbers of subscriptions."""
    return {"400": replace(model, subscriptions=400), "1,000": model}


def _dimensions(
    number: str,
    about: str,
    workloads: Source | Mapping[str, Source],
    techniques: tuple[str, ...],
    claims: Mapping[str, Claim],
    published: tuple[PublishedValue, ...] = (),
) -> DimensionSweep:
    return DimensionSweep(*_named(number, about), workloads, THESIS_BITS, techniques, claims, published)


def _evs_no_better(number: str, about: str, model: Model, reason: str = "") -> DimensionSweep:
    claims = {f"EVS is about as good as random selection{reason}": alike("evs", "random")}
    return _dimensions(number, about, model, ("evs", "random"), claims)


def _sms_like_sfs(number: str, about: str, model: Model) -> DimensionSweep:
    claims = {"SMS and SFS are about as good": alike("sms", "sfs")}
    return _dimensions(number, about, model, ("sms", "sfs"), claims)


def _comparison(number: str, about: str, model: Model, claims: Mapping[str, Claim] | None = None) -> DimensionSweep:
    """GES beside other selections, with both numbers of subscriptions."""
    pairs = [(f"ges, {size}", f"{other}, {size}") for size in _SIZES for other in _COMPARED]
    best = "GES is the best of the four, with 400 and with 1,000 subscriptions"
    holds = {best: every(*(not_worse(*pair) for pair in pairs))} | dict(claims or {})
    return _dimensions(number, f"comparison, {about}", _sizes(model), (*_COMPARED, "ges"), holds)


def _improved_partitioning(number: str, technique: str, few: int, many: int) -> DimensionSweep:
    """A selection with and without adaptive splits; the thesis has a waste of `few` and `many` percent with them."""
    split = f"{technique}+asi"
    return _dimensions(
        number,
        f"{technique.upper()} with and without improved partitioning, zipfian",
        _sizes(_ZIPFIAN_VARYING),
        (technique, split),
        {
            "improved partitioning reduces waste again": every(
                *(beats(f"{split}, {size}", f"{technique}, {size}") for size in _SIZES)
            ),
            f"about three quarters of the waste is gone with 400 subscriptions (the thesis: 88% to {few}%)": reduces(
                f"{split}, 400", 0.7, f"{technique}, 400"
            ),
            f"about three fifths with 1,000 (the thesis: 95% to {many}%)": reduces(
                f"{split}, 1,000", 0.55, f"{technique}, 1,000"
            ),
        },
        (
            PublishedValue("thesis, regular, 400", 0.88, THESIS.dimensions),
            PublishedValue("thesis, regular, 1,000", 0.95, THESIS.dimensions),
            PublishedValue(f"thesis, {split} at best, 400", few / 100),
            PublishedValue(f"thesis, {split} at best, 1,000", many / 100),
        ),
    )


def _automatic(number: str, about: str, model: Model, selective: int, exact: bool) -> CountChoice:
    """The number of dimensions chosen automatically; `exact` where eigenvalues find the best one in the thesis."""
    scenario = f"{about} distribution, {('no', 'one', 'two', 'three', 'four')[selective]} selective dimensions"
    claims = {"GES with automatic count finds the best count": finds_the_best("ges")}
    if exact:
        claims["eigenvalues with SFS find the best count"] = finds_the_best("sfs")
    else:
        claims["eigenvalues with SFS find the best count or one beside it"] = within_one("sfs")
    return CountChoice(
        *_named(number, f"automatic dimension count, {scenario}"),
        replace(model, selective=selective),
        THESIS_BITS,
        claims,
    )


THESIS_FIGURES = (
    _dimensions(
        "5.3",
        "uniform, random selectivity (our random variance)",
        _UNIFORM_VARYING,
        ("evs", "random"),
        {
            "EVS reduces waste clearly and random selection does not": every(
                helps("evs", 0.05), beats("evs", "random", 0.05)
            )
        },
    ),
    _evs_no_better(
        "5.5",
        "zipfian, random selectivity (our random variance)",
        _ZIPFIAN_VARYING,
        ", since it cannot see inside buckets",
    ),
    _evs_no_better("5.8", "uniform, constant selectivity", _UNIFORM),
    _evs_no_better("5.9", "zipfian, constant selectivity", _ZIPFIAN),
    _dimensions(
        "5.11",
        "random selectivity, constant event variance",
        replace(_UNIFORM, selectivity="random", subscriptions=400),
        ("evs", "sos", "sms"),
        {
            "SMS beats EVS, which cannot tell dimensions of equal variance apart, and SOS": every(
                beats("sms", "evs"), beats("sms", "sos")
            ),
            "SOS improves on EVS": beats("sos", "evs"),
        },
    ),
    _sms_like_sfs("5.12", "SMS and SFS, uniform", _UNIFORM_VARYING),
    _sms_like_sfs("5.13", "SMS and SFS, zipfian", _ZIPFIAN_VARYING),
    _dimensions(
        "5.15",
        "correlation 90%",
        replace(_ZIPFIAN, correlation="positive"),
        _LOOKING_FOR_CORRELATION,
        {
            "PFS over CEV and PCS over CFM beat the selections that do not look for correlation": every(
                *(beats(good, plain) for good in ("pfs-cev", "pcs-cfm") for plain in ("evs", "sms", "sfs"))
            )
        },
    ),
    _dimensions(
        "5.16",
        "inverse correlation 90%",
        replace(_ZIPFIAN, correlation="inverse"),
        _LOOKING_FOR_CORRELATION,
        {
            "PFS and PCS over CFM beat the selections that do not look for correlation": every(
                beats("pfs-cev", "evs"), beats("pfs-cmm", "sms"), beats("pfs-cfm", "sfs"), beats("pcs-cfm", "sfs")
            )
        },
    ),
    _dimensions(
        "5.18",
        "random correlation, random selectivity",
        replace(_ZIPFIAN_VARYING, correlation="random"),
        _LOOKING_FOR_CORRELATION,
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
    _dimensions(
        "5.20",
        "greedy and brute force, uniform and zipfian, random selectivity",
        {"uniform": _UNIFORM_VARYING, "zipfian": _ZIPFIAN_VARYING},
        ("ges", "bes"),
        {
            "brute force is less than a point better than greedy": every(
                *(not_worse(f"ges, {d}", f"bes, {d}") for d in ("uniform", "zipfian"))
            )
        },
    ),
    _comparison(
        "5.21",
        "uniform, random selectivity",
        _UNIFORM_VARYING,
        {
            "all four are about as good": every(
                *(alike(f"{one}, {size}", f"ges, {size}") for one in _COMPARED for size in _SIZES)
            )
        },
    ),
    _comparison("5.22", "zipfian, random selectivity", _ZIPFIAN_VARYING),
    _comparison("5.23", "zipfian, constant selectivity, correlation 90%", replace(_ZIPFIAN, correlation="positive")),
    _comparison(
        "5.24", "zipfian, random selectivity, random correlation", replace(_ZIPFIAN_VARYING, correlation="random")
    ),
    _automatic("5.25", "uniform", _UNIFORM_VARYING, 2, exact=True),
    _automatic("5.26", "uniform", _UNIFORM_VARYING, 4, exact=False),
    _automatic("5.27", "zipfian", _ZIPFIAN_VARYING, 2, exact=True),
    _automatic("5.28", "zipfian", _ZIPFIAN_VARYING, 4, exact=False),
    _improved_partitioning("5.29", "sfs", 23, 39),
    _improved_partitioning("5.30", "ges", 24, 42),
    ThesisRunTimes(
        "thesis-times",
        "Bachelor's thesis, chapter 5: run times",
        _UNIFORM_VARYING,
        THESIS_BITS,
        {"every technique is faster than the thesis reports": faster_than_the_thesis},
    ),
)
