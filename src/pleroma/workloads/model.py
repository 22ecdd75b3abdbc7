"""The settings of a synthetic workload, few enough to state beside a figure.

The papers describe their data by distribution, selectivity, variance and correlation (Bhowmik et al. 2017, V-A; Bhowmik
et al. 2018, VI; Grunert 2014, 5.1 and 5.2); each scenario there is one combination of the same settings here. The sizes
of event spaces that the papers use are presets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from pleroma.content.numeric import MAX_EXACT_INTEGER
from pleroma.errors import WorkloadError
from pleroma.workloads.setting_checks import check_number, check_one_of, check_positive, check_whole

Distribution = Literal["uniform", "zipfian"]
Variation = Literal["fixed", "random"]
Correlation = Literal["positive", "inverse", "random"]
EventPlacement = Literal["inside", "independent"]

MAX_HOTSPOTS = 8
MAX_BOUND = MAX_EXACT_INTEGER // 2 - 1
"""Bounds within this have a size that is exact as a double."""
MAX_VALUES = 10**8
"""More numbers than this would fill the memory of an ordinary machine: refused with an error, not met with a crash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """How subscriptions (boxes) and events (points) are spread over the event space.

    Shares are of the domain, from 0 to 1. What "random" settings draw is drawn once, from the seed, for the workload
    as a whole, and does not change with the number of subscriptions or events.
    """

    dimensions: int
    low: int
    high: int
    """Every attribute is a whole number from `low` to `high`."""
    subscriptions: int = 1000
    events: int = 10_000
    distribution: Distribution = "uniform"
    """Centres anywhere ("uniform"), or in the buckets around a few hotspots ("zipfian")."""
    hotspots: int = 5
    exponent: float = 1.0
    """The hotspot of rank r is chosen in proportion to 1 / r ** exponent."""
    width: float = 0.2
    """The mean share of a dimension that a subscription asks for."""
    selectivity: Variation = "fixed"
    """Random: that mean differs between dimensions, so that some tell subscriptions apart better than others."""
    variance: Variation = "fixed"
    """Random: how far centres, and events with them, spread differs between dimensions; if zipfian, in the bucket."""
    selective: int | None = None
    """With random variance: so many dimensions spread fully and the others hardly, in place of all degrees."""
    correlation: Correlation | None = None
    """Random disjoint pairs of dimensions have equal values, or mirrored ones; "random" draws a strength per pair."""
    correlation_strength: float = 0.9
    """The share of values that are equal; with random correlation, the largest share that may be drawn."""
    pairs: int | None = None
    """How many pairs are correlated; all that the dimensions allow, unless told."""
    placement: EventPlacement = "independent"
    """Events at a random place in a random subscription ("inside"), or spread as the centres are ("independent")."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole("dimensions", self.dimensions, 1)
        check_whole("low", self.low, -MAX_BOUND, MAX_BOUND)
        check_whole("high", self.high, -MAX_BOUND, MAX_BOUND)
        if self.low > self.high:
            raise WorkloadError(f"the domain [{self.low}, {self.high}] is empty", field="high", value=self.high)
        check_whole("subscriptions", self.subscriptions, 0)
        check_whole("events", self.events, 0)
        numbers = (self.subscriptions + self.events) * self.dimensions
        if numbers > MAX_VALUES:
            most = f"{MAX_VALUES:,} values at once are the most"
            raise WorkloadError(f"{numbers:,} values are asked for, {most}", field="events", value=self.events)
        check_one_of("distribution", self.distribution, get_args(Distribution))
        check_whole("hotspots", self.hotspots, 1, MAX_HOTSPOTS)
        check_number("exponent", self.exponent)
        check_positive("width", self.width, 1)
        check_one_of("selectivity", self.selectivity, get_args(Variation))
        check_one_of("variance", self.variance, get_args(Variation))
        if self.selective is not None:
            check_whole("selective", self.selective, 0, self.dimensions)
            if self.variance != "random":
                raise WorkloadError("needs variance to be random", field="selective", value=self.selective)
        if self.correlation is not None:
            check_one_of("correlation", self.correlation, get_args(Correlation))
            if self.dimensions < 2:
                raise WorkloadError("one dimension has none to go with", field="correlation", value=self.correlation)
        check_number("correlation_strength", self.correlation_strength, 0, 1)
        if self.pairs is not None:
            check_whole("pairs", self.pairs, 0, self.dimensions // 2)
            if self.correlation is None:
                raise WorkloadError("needs a correlation", field="pairs", value=self.pairs)
        check_one_of("placement", self.placement, get_args(EventPlacement))
        if self.placement == "inside" and self.events and not self.subscriptions:
            reason = "events inside subscriptions need at least one subscription"
            raise WorkloadError(reason, field="subscriptions", value=self.subscriptions)
        check_whole("seed", self.seed, 0)


PLEROMA = Model(dimensions=10, low=0, high=1023, width=0.4)
"""Bhowmik et al. 2017, V-A. Events come independently, so subscriptions are wide enough for some to be met."""
EXPRESSIVE = Model(dimensions=8, low=0, high=4095, width=0.4)
"""Bhowmik et al. 2018, VI."""
THESIS = Model(dimensions=8, low=0, high=10_000, placement="inside")
"""Grunert 2014, 5.1."""
PRESETS = {"pleroma": PLEROMA, "expressive": EXPRESSIVE, "thesis": THESIS}
