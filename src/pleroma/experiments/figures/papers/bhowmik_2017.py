"""The figures of Bhowmik et al. 2017, "High Performance Publish/Subscribe Middleware in Software-defined Networks"."""

from __future__ import annotations

from dataclasses import replace

from pleroma.experiments.figures.dimension_sweep import DimensionSweep, every, helps
from pleroma.experiments.figures.latency import LatencyFigure, hardly_grow
from pleroma.experiments.figures.length_sweep import LengthSweep, falls_with_length, falls_with_subscriptions
from pleroma.experiments.figures.papers.bhowmik_2018 import IPV4_BITS
from pleroma.workloads import PLEROMA, StockModel

_VARYING = (2, 4, 6)
"""How many of the ten dimensions vary in the three workloads of figure 8(e)."""

PLEROMA_FIGURES = (
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
        {name: replace(PLEROMA, events=10_000, distribution=name) for name in ("uniform", "zipfian")},
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
            for n in _VARYING
        },
        IPV4_BITS,
        ("evs",),
        {"fewer dimensions waste less": every(*(helps(f"evs, {n} of 10 vary", 0.02) for n in _VARYING))},
    ),
    DimensionSweep(
        "fig8f",
        "PLEROMA article, figure 8(f): dimension selection on stock quotes",
        StockModel(),
        IPV4_BITS,
        ("evs", "cs", "gs"),
        {"fewer dimensions waste less, with every technique": every(helps("evs"), helps("cs"), helps("gs"))},
    ),
)
