"""How many dimensions to select (Grunert 2014, 3.5; Bhowmik et al. 2018, Algorithm 4)."""

from __future__ import annotations

import numpy as np

from pleroma.errors import TuningError
from pleroma.selection.dimension_scores import Covariance, event_covariance
from pleroma.selection.dimension_selection import select
from pleroma.selection.evidence import Evidence
from pleroma.selection.principal_dimensions import components_of


def count_by_eigenvalues(evidence: Evidence, threshold: float = 0.9, covariance: Covariance | None = None) -> int:
    """The fewest components whose eigenvalues make up `threshold` of the sum (Grunert 2014, 3.5.1).

    The pseudo-code adds each eigenvalue to the total instead of to the running sum, which would always answer 1; the
    text means the running sum.
    """
    if not 0.0 < threshold <= 1.0:
        raise TuningError(f"a threshold is above 0 and at most 1, not {threshold}", field="threshold", value=threshold)
    values, _ = components_of((covariance or event_covariance)(evidence.statistics))
    values = np.maximum(values, 0.0)
    running = np.cumsum(values)
    return int(np.searchsorted(running, threshold * running[-1] * (1 - 1e-12))) + 1


def count_by_evaluation(evidence: Evidence, technique: str = "ges") -> int:
    """The count whose selection wastes least (Grunert 2014, 3.5.2; Bhowmik et al. 2018, Algorithm 4)."""
    chosen = [(n, select(technique, evidence, n)) for n in range(evidence.dimensions, 0, -1)]
    return min(chosen, key=lambda each: evidence.evaluator.waste(each[1]).deliveries)[0]
