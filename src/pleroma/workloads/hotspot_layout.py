"""Where the hotspots of a workload lie and how far values spread around them, drawn once for all events and boxes.

A uniform workload is a zipfian one with a single bucket as large as the event space, so both have one description
(Grunert 2014, 5.2.1). Places are drawn one from each of as many equal parts, so that every seed gives dimensions that
differ where they should, and hotspots that no dimension sees as one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pleroma.workloads.model import Model

BUCKET_EDGE = 0.2
"""The edge of the bucket around a hotspot, as a share of the domain."""
LEAST_SPREAD = 0.05
"""How far values spread at least with random variance, as a share of the bucket."""
SELECTIVITY_CONTRAST = 0.8
"""How far random selectivity takes the width of a dimension from the mean towards nothing, or the whole domain."""


@dataclass(frozen=True, slots=True, eq=False)
class HotspotLayout:
    """What the seed of a model decides for the workload as a whole."""

    popularity: NDArray[np.float64]
    """The chance of each bucket, the most popular first."""
    places: NDArray[np.float64]
    """Bucket by dimension: 0 where it touches the lower end of the domain, 1 where it touches the upper."""
    reach: NDArray[np.float64]
    """By dimension: the edge of a bucket, as a share of the domain."""
    widths: NDArray[np.float64]
    """By dimension: the mean width of subscriptions, as a share of the domain."""
    pairs: tuple[tuple[int, int], ...]
    """Correlated dimensions: the second follows the first."""
    strengths: tuple[float, ...]
    mirrored: bool

    @classmethod
    def of(cls, model: Model) -> HotspotLayout:
        draw = np.random.default_rng([model.seed, 0])
        d = model.dimensions
        buckets = model.hotspots if model.distribution == "zipfian" else 1
        popularity = np.arange(1, buckets + 1) ** -float(model.exponent)
        places = np.column_stack([_parted(draw, buckets) for _ in range(d)])
        spread, degrees = np.ones(d), _parted(draw, d)
        if model.variance == "random":
            if model.selective is None:
                spread = LEAST_SPREAD + (1 - LEAST_SPREAD) * degrees
            else:
                spread[np.argsort(degrees)[model.selective :]] = LEAST_SPREAD
        widths, degrees = np.full(d, float(model.width)), _parted(draw, d)
        if model.selectivity == "random":
            widths += SELECTIVITY_CONTRAST * min(model.width, 1 - model.width) * (2 * degrees - 1)
        order, amounts = draw.permutation(d).tolist(), draw.random(d // 2)
        count = 0 if model.correlation is None else d // 2 if model.pairs is None else model.pairs
        pairs = tuple((order[2 * i], order[2 * i + 1]) for i in range(count))
        if model.correlation != "random":
            amounts = np.ones(d // 2)
        mirrored = model.correlation == "inverse"
        if buckets == 1:  # correlated dimensions share their one place, or its mirror image
            for first, second in pairs:
                places[:, second] = 1 - places[:, first] if mirrored else places[:, first]
        return cls(
            popularity=popularity / popularity.sum(),
            places=places,
            reach=spread * (BUCKET_EDGE if model.distribution == "zipfian" else 1.0),
            widths=widths,
            pairs=pairs,
            strengths=tuple((model.correlation_strength * amounts[:count]).tolist()),
            mirrored=mirrored,
        )

    @property
    def centres(self) -> NDArray[np.float64]:
        """Bucket by dimension: the middle, as a share of the domain."""
        return self.reach / 2 + (1 - self.reach) * self.places


def _parted(draw: np.random.Generator, count: int) -> NDArray[np.float64]:
    """One random number from each of `count` equal parts of [0, 1), in random order."""
    return (draw.permutation(count) + draw.random(count)) / count
