"""Where the bits go: statistics of traffic, dimension selection, adaptive splits, and what each would waste."""

from pleroma.tuning.adaptive import adaptive_grid
from pleroma.tuning.evaluation import GridEvaluator
from pleroma.tuning.sample import Sample
from pleroma.tuning.selection import TECHNIQUES, Evidence, count_by_eigenvalues, count_by_evaluation, select
from pleroma.tuning.selective import Selective
from pleroma.tuning.splits import SPLITS, Adaptive, Regular, Split
from pleroma.tuning.statistics import Statistics
from pleroma.tuning.tree_fitting import Budget
from pleroma.tuning.tree_learner import Learned, learn, regrown

__all__ = [
    "SPLITS",
    "TECHNIQUES",
    "Adaptive",
    "Budget",
    "Evidence",
    "GridEvaluator",
    "Learned",
    "Regular",
    "Sample",
    "Selective",
    "Split",
    "Statistics",
    "adaptive_grid",
    "count_by_eigenvalues",
    "count_by_evaluation",
    "learn",
    "regrown",
    "select",
]
