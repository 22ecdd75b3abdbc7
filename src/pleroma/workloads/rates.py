"""When control requests arrive: the two models of load on the control plane (Bhowmik et al. 2017, V-A).

Both have the same mean rate. Uniform arrivals keep to it throughout; Poisson arrivals come in bursts and leave lulls,
which is what fills queues.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pleroma.workloads.model import MAX_VALUES
from pleroma.workloads.setting_checks import check_positive, check_whole


def uniform(rate: float, count: int, seed: int = 0) -> NDArray[np.float64]:
    """Arrival times in seconds: one at a random moment of each of `count` equal parts of the interval.

    Moments drawn from the whole interval would bunch just as Poisson arrivals do.
    """
    draw = _generator(rate, count, seed)
    return (np.arange(count) + draw.random(count)) / rate


def poisson(rate: float, count: int, seed: int = 0) -> NDArray[np.float64]:
    """Arrival times in seconds, with independent, exponentially distributed gaps."""
    draw = _generator(rate, count, seed)
    return np.cumsum(draw.exponential(1 / rate, count))


def _generator(rate: float, count: int, seed: int) -> np.random.Generator:
    check_positive("rate", rate)
    check_whole("count", count, 0, MAX_VALUES)
    check_whole("seed", seed, 0)
    return np.random.default_rng(seed)
