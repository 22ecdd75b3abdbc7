"""Which dimensions deserve the bits: the selection techniques of Bhowmik et al. 2018, IV and Grunert 2014, ch. 3.

Each is a function from evidence to all dimensions in order of merit, or to the best set of a given size; `select` is
the one way to call them, by the papers' names. Ties go to the dimension that the schema lists first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pleroma.arrays.types import Floats
from pleroma.errors import TuningError, UnknownName
from pleroma.evaluation.grid_evaluator import Evaluator
from pleroma.selection.pass_kernels import UNIT
from pleroma.selection.traffic_statistics import TrafficStatistics

Dimensions = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What a technique may look at: statistics, and the deliveries that subsets of dimensions would make."""

    statistics: TrafficStatistics
    evaluator: Evaluator
    seed: int = 0

    @property
    def dimensions(self) -> int:
        return len(self.statistics.values)


Technique = Callable[[Evidence, int], Dimensions]


def select(technique: str, evidence: Evidence, count: int) -> Dimensions:
    """The `count` dimensions that a technique chooses, in the order of the schema."""
    if technique not in TECHNIQUES:
        raise UnknownName("technique", technique, TECHNIQUES)
    if isinstance(count, bool) or not 1 <= count <= evidence.dimensions:
        reason = f"{count} dimensions are asked for, there are {evidence.dimensions}"
        raise TuningError(reason, field="dimensions", value=count)
    return tuple(sorted(TECHNIQUES[technique](evidence, count)))


def ranked(scores: Iterable[float], count: int) -> Dimensions:
    """The dimensions with the highest scores."""
    given = list(scores)
    return tuple(sorted(range(len(given)), key=lambda d: (-given[d], d))[:count])


# -- scores of single dimensions -------------------------------------------------------------------------------------


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


# -- similarity of two dimensions ------------------------------------------------------------------------------------


def event_covariance(statistics: TrafficStatistics) -> Floats:
    """CEV."""
    return statistics.covariance


def match_covariance(statistics: TrafficStatistics) -> Floats:
    """CMM: 1 - the share of (event, subscription) pairs that match along both."""
    return np.asarray(1.0 - statistics.pairs / max(statistics.events * statistics.boxes, 1))


def false_match_covariance(statistics: TrafficStatistics) -> Floats:
    """CFM: 1 - the mean share of an event's matches along both that are false; an event without any has none false."""
    return np.asarray(1.0 - statistics.false_rates / (UNIT * statistics.events))


Covariance = Callable[[TrafficStatistics], Floats]


def _components(covariance: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues, largest first, and the eigenvectors that belong to them, one a row, in magnitude."""
    values, vectors = np.linalg.eigh(covariance)
    order = np.argsort(-values, kind="stable")
    return values[order], np.abs(vectors[:, order].T)


def principal_components(covariance: Covariance) -> Technique:
    """PCS: the largest coefficients of the first principal component. Over CMM it is the CS of Bhowmik et al. 2018"""

    def choose(evidence: Evidence, count: int) -> Dimensions:
        _, components = _components(covariance(evidence.statistics))
        return ranked(np.round(components[0], 12).tolist(), count)

    return choose


def principal_features(covariance: Covariance) -> Technique:
    """PFS: dimensions alike in the first `count` components are clustered; each cluster sends its most central."""

    def choose(evidence: Evidence, count: int) -> Dimensions:
        _, components = _components(covariance(evidence.statistics))
        points = np.round(components[:count].T, 12)
        return _medoids(points, count)

    return choose


def _medoids(points: Floats, count: int) -> Dimensions:
    """k-means from the farthest-first start, which needs no luck, then the point nearest to each mean."""
    starts = [0]
    while len(starts) < count:
        away = np.min([np.linalg.norm(points - points[s], axis=1) for s in starts], axis=0)
        away[starts] = -1.0
        starts.append(int(np.argmax(away)))
    means = points[starts]
    for _ in range(100):
        cluster = np.argmin(np.linalg.norm(points[:, None] - means[None], axis=2), axis=1)
        filled = [k for k in range(count) if (cluster == k).any()]
        moved = means.copy()
        moved[filled] = [points[cluster == k].mean(axis=0) for k in filled]
        if np.allclose(moved, means):
            break
        means = moved
    chosen: list[int] = []
    for mean in means:
        order = np.argsort(np.linalg.norm(points - mean, axis=1), kind="stable").tolist()
        chosen.append(next(d for d in order if d not in chosen))
    return tuple(chosen)


# -- trying it out ---------------------------------------------------------------------------------------------------


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
    """The baseline."""
    order = np.random.default_rng(evidence.seed).permutation(evidence.dimensions)
    return tuple(order[:count].tolist())


# -- how many --------------------------------------------------------------------------------------------------------


def count_by_eigenvalues(evidence: Evidence, threshold: float = 0.9, covariance: Covariance | None = None) -> int:
    """The fewest components whose eigenvalues make up `threshold` of the sum (Grunert 2014, 3.5.1).

    The pseudo-code adds each eigenvalue to the total instead of to the running sum, which would always answer 1; the
    text means the running sum.
    """
    if not 0.0 < threshold <= 1.0:
        raise TuningError(f"a threshold is above 0 and at most 1, not {threshold}", field="threshold", value=threshold)
    values, _ = _components((covariance or event_covariance)(evidence.statistics))
    values = np.maximum(values, 0.0)
    running = np.cumsum(values)
    return int(np.searchsorted(running, threshold * running[-1] * (1 - 1e-12))) + 1


def count_by_evaluation(evidence: Evidence, technique: str = "ges") -> int:
    """The count whose selection wastes least (Grunert 2014, 3.5.2; Bhowmik et al. 2018, Algorithm 4)."""
    chosen = [(n, select(technique, evidence, n)) for n in range(evidence.dimensions, 0, -1)]
    return min(chosen, key=lambda each: evidence.evaluator.waste(each[1]).deliveries)[0]


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
"""The techniques that ask the evaluator, and so may be given another kind of index to choose dimensions for."""
