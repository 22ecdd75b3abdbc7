"""All figures that can be repeated, by name. `figures.papers` has the settings and the claims of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from pleroma.experiments.figures.additional_rules import AdditionalRules
from pleroma.experiments.figures.count_choice import CountChoice
from pleroma.experiments.figures.dimension_sweep import DimensionSweep
from pleroma.experiments.figures.length_sweep import LengthSweep
from pleroma.experiments.figures.papers.bhowmik_2017 import PLEROMA_FIGURES
from pleroma.experiments.figures.papers.bhowmik_2018 import EXPRESSIVE_FIGURES
from pleroma.experiments.figures.papers.grunert_2014 import THESIS_FIGURES
from pleroma.experiments.figures.papers.zhao_wu_2011 import TAMA_FIGURES
from pleroma.experiments.figures.subscription_sweep import SubscriptionSweep
from pleroma.experiments.frontier.frontier import FRONTIER_BY_WIDTH, Frontier
from pleroma.experiments.report import FigureReport
from pleroma.experiments.scenarios import Performer, one_by_one


class Figure(Protocol):
    """An experiment that can be repeated."""

    @property
    def figure(self) -> str: ...

    @property
    def title(self) -> str: ...

    def run(self, quick: bool, advance: Callable[[float], None]) -> FigureReport: ...


class SweepFigure(Figure, Protocol):
    """An experiment of independent scenarios, which other processes may perform."""

    def run(self, quick: bool, advance: Callable[[float], None], perform: Performer = one_by_one) -> FigureReport: ...


_PUBLISHED: tuple[Figure, ...] = (*EXPRESSIVE_FIGURES, *PLEROMA_FIGURES, *THESIS_FIGURES, *TAMA_FIGURES)
_OWN: tuple[Figure, ...] = (Frontier(), FRONTIER_BY_WIDTH)

FIGURES: Mapping[str, Figure] = {each.figure: each for each in _PUBLISHED}
"""Figures of the papers."""

EXPERIMENTS: Mapping[str, Figure] = {each.figure: each for each in (*_PUBLISHED, *_OWN)}
"""Figures of the papers, and what the papers do not show."""

_SWEEPS = (DimensionSweep, SubscriptionSweep, LengthSweep, CountChoice, AdditionalRules, Frontier)

SWEEPS: Mapping[str, SweepFigure] = {name: each for name, each in EXPERIMENTS.items() if isinstance(each, _SWEEPS)}
"""All experiments but those that measure this machine, or have one scenario."""
