"""Selective indexing: rectangles around similar subscriptions, and how many of them (Bhowmik et al. 2018, III-A).

More rectangles leave out more empty space and cost bits for their numbers. What is best is found by trying: of a few
counts, the one that delivers least on the sample is taken. There is an upper limit, since every publisher has to look
through the rectangles for every event, and since with a rectangle for each subscription the publisher would do the
filtering in place of the network.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from pleroma.errors import TuningError
from pleroma.evaluation.grid_evaluator import GridEvaluator, parts
from pleroma.evaluation.sample import Sample
from pleroma.index import Dz, GridIndex, Rectangle, SelectiveIndex, SelectiveRegion, Waste
from pleroma.index.axis import Axis
from pleroma.index.grid_index import Span, bits_within, round_robin
from pleroma.selection.clusters import rectangles

RECTANGLE_COUNTS = (0, 4, 16, 64)
"""The numbers of rectangles that are tried. Without any, all of the space is the rest: regular indexing."""


class SelectiveSplit:
    """Selective indexes for one sample: with `count` rectangles, or the one of `RECTANGLE_COUNTS` that delivers least.

    With `repeated`, as in the paper, an event is sent once in each rectangle that holds it. A subscription
    then sees less waste, but a host with subscriptions in several rectangles gets the event several times.
    """

    def __init__(self, sample: Sample, bits: int, count: int | None = None, repeated: bool = False) -> None:
        if count is not None and (isinstance(count, bool) or count < 0):
            raise TuningError(f"{count} rectangles are asked for", field="rectangles", value=count)
        self.sample = sample
        counts = RECTANGLE_COUNTS if count is None else (count,)
        path = [[], *rectangles(sample, max(counts))]
        groups = {min(n, len(path) - 1): path[min(n, len(path) - 1)] for n in counts}
        fitting = [found for n, found in groups.items() if numbers(n)[-1].length < bits]
        if not fitting:
            raise TuningError(f"{bits} bits have no room for the rectangles' numbers", field="bits", value=bits)
        self._layouts = [_RectangleLayout(sample, bits, found, repeated) for found in fitting]

    @cached_property
    def _exact(self) -> GridEvaluator:
        return GridEvaluator(self.sample, 1)

    def waste(self, dimensions: Iterable[int]) -> Waste:
        """On the sample, with the bits behind the numbers given to these dimensions."""
        dims = self.sample.chosen(dimensions)
        return Waste(self._best(dims).deliveries(dims), self._exact.wanted)

    def index(self, dimensions: Iterable[int]) -> SelectiveIndex:
        dims = self.sample.chosen(dimensions)
        return self._best(dims).index(dims)

    def _best(self, dims: list[int]) -> _RectangleLayout:
        return min(self._layouts, key=lambda layout: layout.deliveries(dims))


class _RectangleLayout:
    """Given rectangles, and what any choice of dimensions does with the bits that their numbers leave."""

    def __init__(self, sample: Sample, bits: int, found: list[Rectangle], repeated: bool) -> None:
        schema = sample.schema
        self.sample = sample
        self.repeated = repeated
        extents = [attribute.extent for attribute in schema.attributes]
        # the smallest first: there cells are finest; the largest need the most bits and have the shortest numbers
        small_first = sorted(found, key=lambda rectangle: _size(rectangle.sides, extents))
        *given, last = numbers(len(found))
        self.places = [*zip(given[::-1], small_first, strict=True), (last, None)]
        self.room = [bits - number.length for number, _ in self.places]
        everything = GridIndex(schema, ())
        bare = SelectiveIndex(schema, tuple(SelectiveRegion(n, r, everything) for n, r in self.places), repeated)
        self._evaluators = [self._evaluator(at, part) for at, part in enumerate(parts(sample, bare))]

    def _sides(self, at: int) -> list[Span]:
        rectangle = self.places[at][1]
        return [a.extent for a in self.sample.schema.attributes] if rectangle is None else list(rectangle.sides)

    def _useful(self, at: int, d: int) -> int:
        """How many bits tell all values of a dimension apart in a region."""
        return bits_within(self.sample.schema.attributes[d], self._sides(at)[d])

    def _evaluator(self, at: int, part: Sample) -> GridEvaluator:
        attributes, sides = self.sample.schema.attributes, self._sides(at)
        return GridEvaluator(
            part,
            self.room[at],
            lambda d, n: Axis.of(attributes[d], n, (), sides[d]),
            lambda d: self._useful(at, d),
        )

    def deliveries(self, dims: list[int]) -> int:
        return sum(evaluator.deliveries(dims) for evaluator in self._evaluators)

    def index(self, dims: list[int]) -> SelectiveIndex:
        schema, regions = self.sample.schema, []
        for at, (number, rectangle) in enumerate(self.places):
            order = round_robin(schema, dims, self.room[at], lambda d, at=at: self._useful(at, d))  # type: ignore[misc]
            sides = self._sides(at)
            within = {} if rectangle is None else {d: sides[d] for d in sorted(set(order))}
            regions.append(SelectiveRegion(number, rectangle, GridIndex(schema, order, {}, within)))
        return SelectiveIndex(schema, tuple(regions), self.repeated)


def numbers(count: int) -> list[Dz]:
    """Numbers for so many rectangles and, the last, for the rest: of two lengths at most, the shorter first."""
    length = (count + 1).bit_length() - 1
    short = (2 << length) - (count + 1)
    longer = range(2 * short, 2 * short + count + 1 - short)
    return [Dz(1 << length | n) for n in range(short)] + [Dz(2 << length | n) for n in longer]


def _size(sides: Iterable[Span], extents: Iterable[Span]) -> float:
    """The share of the event space that a rectangle takes, as a logarithm; thin sides count as a little."""
    pairs = zip(sides, extents, strict=True)
    shares = [(high - low) / (upper - lower) if upper > lower else 1.0 for (low, high), (lower, upper) in pairs]
    return float(np.log2(np.array(shares) + 2.0**-10).sum())
