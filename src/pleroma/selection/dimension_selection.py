"""Which dimensions deserve the bits: the selection techniques of Bhowmik et al. 2018, IV and Grunert 2014, ch. 3.

Each is a function from evidence to all dimensions in order of merit, or to the best set of a given size; `select` is
the one way to call them, by the papers' names. Ties go to the dimension that the schema lists first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations

import numpy as np

from pleroma.arrays.types import Floats
from pleroma.errors import TuningError, UnknownName
from pleroma.selection.dimension_scores import (
    event_covariance,
    false_match_covariance,
    false_match_scores,
    match_count_scores,
    match_covariance,
    match_scores,
    overlap_scores,
    variance_scores,
)
from pleroma.selection.evidence import Dimensions, Evidence, Technique, ranked
from pleroma.selection.principal_dimensions import principal_components, principal_features
from pleroma.selection.traffic_statistics import TrafficStatistics


def select(technique: str, evidence: Evidence, count: int) -> Dimensions:
    """The `count` dimensions that a technique chooses, in the order of the schema."""
    if technique not in TECHNIQUES:
        raise UnknownName("technique", technique, TECHNIQUES)
    if isinstance(count, bool) or not 1 <= count <= evidence.dimensions:
        reason = f"{count} dimensions are asked for, there are {evidence.dimensions}"
        raise TuningError(reason, field="dimensions", value=count)
    return tuple(sorted(TECHNIQUES[technique](evidence, count)))


def greedy(evidence: Evidence, count: int) -> Dimensions:
    """GES (GS in Bhowmik et al. 2018): leave out, again and again, the dimension whose absence wastes least."""
    return greedy_path(evidence)[evidence.dimensions - count]


def greedy_path(evidence: Evidence) -> list[Dimensions]:
    """The sets that greedy selection passes through, from all dimensions down to one."""
    path = [tuple(range(evidence.dimensions))]
    while len(path[-1]) > 1:
        # of dimensions that are missed equally little, `min` finds the last of the schema first
        fewer = [tuple(d for d in path[-1] if d != gone) for gone in reversed(path[-1])]
        path.append(min(fewer, key=lambda dims: evidence.evaluator.waste(dims).deliveries))
    return path


def brute_force(evidence: Evidence, count: int) -> Dimensions:
    """BES (BRS in Bhowmik et al. 2018): the best of all sets of this size."""
    every = combinations(range(evidence.dimensions), count)
    return min(every, key=lambda dims: evidence.evaluator.waste(dims).deliveries)


def at_random(evidence: Evidence, count: int) -> Dimensions:
    """The baseline: dimensions chosen at random, from the seed."""
    order = np.random.default_rng(evidence.seed).permutation(evidence.dimensions)
    return tuple(order[:count].tolist())


def _by(scores: Callable[[TrafficStatistics], Floats]) -> Technique:
    return lambda evidence, count: ranked(scores(evidence.statistics).tolist(), count)


TECHNIQUES: Mapping[str, Technique] = {
    "evs": _by(variance_scores),
    "sos": _by(overlap_scores),
    "sms": _by(match_scores),
    "emcs": _by(match_count_scores),
    "sfs": _by(false_match_scores),
    "pcs-cev": principal_components(event_covariance),
    "pcs-cmm": principal_components(match_covariance),
    "pcs-cfm": principal_components(false_match_covariance),
    "pfs-cev": principal_features(event_covariance),
    "pfs-cmm": principal_features(match_covariance),
    "pfs-cfm": principal_features(false_match_covariance),
    "cs": principal_components(match_covariance),
    "ges": greedy,
    "gs": greedy,
    "bes": brute_force,
    "brs": brute_force,
    "random": at_random,
}

EVALUATING = frozenset({"ges", "gs", "bes", "brs"})
"""The techniques that ask the evaluator, and so can choose dimensions for any kind of index."""
