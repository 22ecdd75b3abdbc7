"""How well a dimension tells subscriptions apart, and how alike two dimensions are, by statistics of the traffic.

The scores and covariances of Bhowmik et al. 2018, IV and Grunert 2014, ch. 3. The higher a score, the better.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pleroma.arrays.types import Floats
from pleroma.selection.pass_kernels import UNIT
from pleroma.selection.traffic_statistics import TrafficStatistics


def variance_scores(statistics: TrafficStatistics) -> Floats:
    """EVS: the variance of the events' values, scaled to the domain."""
    return statistics.variance


def overlap_scores(statistics: TrafficStatistics) -> Floats:
    """SOS: 1 - the mean share of a box's events that other boxes match too; a box without events overlaps nothing."""
    covered = np.maximum(statistics.covered, 1)
    overlap = (statistics.covered - statistics.alone) / covered
    mean = overlap.sum(axis=0) / max(statistics.boxes, 1)
    return np.asarray(np.round(1.0 - mean, 12))  # the order of the boxes must not decide a tie


def match_scores(statistics: TrafficStatistics) -> Floats:
    """SMS: 1 - the share of possible further matches that the matched events have.

    Differs from EMCS in two ways: events matched by nobody along the dimension do not count, and of an event's matches
    the first is free.
    """
    possible = statistics.touched * max(statistics.boxes - 1, 1)
    further = statistics.matched - statistics.touched
    return np.asarray(1.0 - further / np.maximum(possible, 1))


def match_count_scores(statistics: TrafficStatistics) -> Floats:
    """EMCS (Bhowmik et al. 2018, Algorithm 2): 1 - the share of all (event, subscription) pairs that match."""
    return np.asarray(1.0 - statistics.matched / max(statistics.events * statistics.boxes, 1))


def false_match_scores(statistics: TrafficStatistics) -> Floats:
    """SFS: the share of matches along the dimension that are matches in full."""
    return np.asarray(statistics.matches / np.maximum(statistics.matched, 1))


def event_covariance(statistics: TrafficStatistics) -> Floats:
    """CEV: the covariance of the events' values, scaled to the domain."""
    return statistics.covariance


def match_covariance(statistics: TrafficStatistics) -> Floats:
    """CMM: 1 - the share of (event, subscription) pairs that match along both."""
    return np.asarray(1.0 - statistics.pairs / max(statistics.events * statistics.boxes, 1))


def false_match_covariance(statistics: TrafficStatistics) -> Floats:
    """CFM: 1 - the mean share of an event's matches along both that are false; an event without any has none false."""
    return np.asarray(1.0 - statistics.false_rates / (UNIT * statistics.events))


Covariance = Callable[[TrafficStatistics], Floats]
"""By two dimensions: how alike they are."""
