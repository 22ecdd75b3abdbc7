"""The ways to split the event space, all behind one interface, so that any goes with any selection of dimensions.

Evaluation-based selection may be given one of these as its evaluator: then it chooses dimensions by what they do under
that very index (Grunert 2014, 4.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from pleroma.evaluation.grid_evaluator import GridEvaluator
from pleroma.evaluation.sample import Sample
from pleroma.index import GridIndex, Index, Waste
from pleroma.selection.adaptive import AdaptiveAxes
from pleroma.selection.selective_indexing import SelectiveSplit


class SplitMethod(Protocol):
    """A way to split the event space, for one sample and a number of bits."""

    def waste(self, dimensions: Iterable[int]) -> Waste:
        """What an index over some dimensions wastes on the sample."""

    def index(self, dimensions: Iterable[int]) -> Index: ...


class RegularSplit(GridEvaluator):
    """Cells of equal size."""

    def index(self, dimensions: Iterable[int]) -> Index:
        names = self.sample.schema.names
        return GridIndex.regular(self.sample.schema, self.bits, [names[d] for d in self.sample.chosen(dimensions)])


class AdaptiveSplit(GridEvaluator):
    """Cells between workload medians."""

    def __init__(self, sample: Sample, bits: int) -> None:
        self._cuts = AdaptiveAxes(sample)
        super().__init__(sample, bits, self._cuts.axis, self._cuts.room)

    def index(self, dimensions: Iterable[int]) -> Index:
        return self._cuts.grid(self.bits, dimensions)


SPLITS: Mapping[str, Callable[[Sample, int], SplitMethod]] = {
    "regular": RegularSplit,
    "adaptive": AdaptiveSplit,
    "selective": SelectiveSplit,
    "repeated": lambda sample, bits: SelectiveSplit(sample, bits, repeated=True),
}
"""The last is selective indexing as Bhowmik et al. 2018 has it: an event is sent in every rectangle that holds it."""
