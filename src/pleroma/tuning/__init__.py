"""Where the bits go: statistics of traffic, dimension selection, adaptive splits, and what each would waste."""

from pleroma.tuning.adaptive import adaptive_grid
from pleroma.tuning.evaluation import GridEvaluator
from pleroma.tuning.sample import Sample
from pleroma.tuning.selection import TECHNIQUES, Evidence, count_by_eigenvalues, count_by_evaluation, select
from pleroma.tuning.statistics import Statistics

__all__ = [
    "TECHNIQUES",
    "Evidence",
    "GridEvaluator",
    "Sample",
    "Statistics",
    "adaptive_grid",
    "count_by_eigenvalues",
    "count_by_evaluation",
    "select",
]
