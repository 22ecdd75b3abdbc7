"""Selecting dimensions by the principal components of a covariance (Grunert 2014, ch. 3; Bhowmik et al. 2018, IV)."""

from __future__ import annotations

import numpy as np

from pleroma.arrays.types import Floats
from pleroma.selection.dimension_scores import Covariance
from pleroma.selection.evidence import Dimensions, Evidence, Technique, ranked


def components_of(covariance: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues, largest first, and the eigenvectors that belong to them, one a row, in magnitude."""
    values, vectors = np.linalg.eigh(covariance)
    order = np.argsort(-values, kind="stable")
    return values[order], np.abs(vectors[:, order].T)


def principal_components(covariance: Covariance) -> Technique:
    """PCS: the largest coefficients of the first principal component. Over CMM it is the CS of Bhowmik et al. 2018"""

    def choose(evidence: Evidence, count: int) -> Dimensions:
        _, components = components_of(covariance(evidence.statistics))
        return ranked(np.round(components[0], 12).tolist(), count)

    return choose


def principal_features(covariance: Covariance) -> Technique:
    """PFS: dimensions alike in the first `count` components are clustered; the most central of each is chosen."""

    def choose(evidence: Evidence, count: int) -> Dimensions:
        _, components = components_of(covariance(evidence.statistics))
        points = np.round(components[:count].T, 12)
        return _medoids(points, count)

    return choose


def _medoids(points: Floats, count: int) -> Dimensions:
    """The point nearest to each mean of k-means, which starts farthest-first and so without randomness."""
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
