"""The papers' definitions of tuning, transcribed: slow, and each as close to its text as Python allows.

Where the pseudo-code of Grunert 2014 slips (a variance that is overwritten instead of summed, counters that are not
reset per dimension, a `break` after the first event of a subscription), this is what the text around it means. A
subscription of the papers is a box here. A fraction of nothing is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

from pleroma.content import Box, Event, Filter, Schema
from pleroma.index import GridIndex, evaluate

Matrix = list[list[float]]


def boxes_of(filters: Sequence[Filter]) -> list[Box]:
    return [box for each in filters for box in each.boxes]


def matches_at(box: Box, event: Event, d: int) -> bool:
    low, high = box.ranges[d]
    return bool(low <= event.value_keys[d] < high)


def matches_at_both(box: Box, event: Event, i: int, j: int) -> bool:
    return matches_at(box, event, i) and matches_at(box, event, j)


def matches(box: Box, event: Event) -> bool:
    return all(matches_at(box, event, d) for d in range(len(event.value_keys)))


def fraction(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def samples(schema: Schema, events: Sequence[Event], d: int) -> list[float]:
    """The values of a dimension, as shares of its domain."""
    low, high = schema.attributes[d].extent
    return [fraction(event.coordinates()[d] - low, high - low) for event in events]


# -- Grunert 2014, 3.1 and 3.2: scores of single dimensions ---------------------------------------------------------


def event_variance(schema: Schema, events: Sequence[Event]) -> list[float]:
    """EVS, Algorithm 1. Divided as Algorithm 9 divides, which changes no order."""
    variances = []
    for d in range(len(schema)):
        values = samples(schema, events, d)
        mean = sum(values) / len(values)
        variances.append(fraction(sum((value - mean) ** 2 for value in values), len(values) - 1))
    return variances


def subscription_overlap(schema: Schema, boxes: Sequence[Box], events: Sequence[Event]) -> list[float]:
    """SOS, Algorithm 3."""
    scores = []
    for d in range(len(schema)):
        overlap_sum = 0.0
        for mine, box in enumerate(boxes):
            others = [*boxes[:mine], *boxes[mine + 1 :]]
            covered = [e for e in events if matches_at(box, e, d)]
            shared = [e for e in covered if any(matches_at(other, e, d) for other in others)]
            overlap_sum += fraction(len(shared), len(covered))
        scores.append(1.0 - fraction(overlap_sum, len(boxes)))
    return scores


def subscription_matches(schema: Schema, boxes: Sequence[Box], events: Sequence[Event]) -> list[float]:
    """SMS, Algorithm 4."""
    scores = []
    for d in range(len(schema)):
        matched_by_any = [e for e in events if any(matches_at(box, e, d) for box in boxes)]
        overlaps = sum(sum(matches_at(box, e, d) for box in boxes) - 1 for e in matched_by_any)
        scores.append(1.0 - fraction(overlaps, len(matched_by_any) * (len(boxes) - 1)))
    return scores


def event_match_count(schema: Schema, boxes: Sequence[Box], events: Sequence[Event]) -> list[float]:
    """EMCS, Bhowmik et al. 2018, Algorithm 2."""
    scores = []
    for d in range(len(schema)):
        matched = sum(matches_at(box, e, d) for e in events for box in boxes)
        scores.append(1.0 - fraction(matched, len(events) * len(boxes)))
    return scores


def false_matches(schema: Schema, boxes: Sequence[Box], events: Sequence[Event]) -> list[float]:
    """SFS, Algorithm 5. Where nothing matches along a dimension, nothing is selected by it: 0."""
    scores = []
    for d in range(len(schema)):
        matched = [(box, e) for e in events for box in boxes if matches_at(box, e, d)]
        false = [(box, e) for box, e in matched if not matches(box, e)]
        scores.append(1.0 - len(false) / len(matched) if matched else 0.0)
    return scores


# -- Grunert 2014, 3.3: matrices of two dimensions ------------------------------------------------------------------


def _matrix(schema: Schema, entry: Callable[[int, int], float]) -> Matrix:
    return [[entry(i, j) for j in range(len(schema))] for i in range(len(schema))]


def covariance_of_events(schema: Schema, events: Sequence[Event]) -> Matrix:
    """CEV, Algorithm 9."""

    def entry(i: int, j: int) -> float:
        mine, its = samples(schema, events, i), samples(schema, events, j)
        my_mean, its_mean = sum(mine) / len(mine), sum(its) / len(its)
        summed = sum((v - my_mean) * (w - its_mean) for v, w in zip(mine, its, strict=True))
        return fraction(summed, len(events) - 1)

    return _matrix(schema, entry)


def covariance_of_matches(schema: Schema, boxes: Sequence[Box], events: Sequence[Event]) -> Matrix:
    """CMM, Algorithm 10; the same as Bhowmik et al. 2018, Algorithm 3, lines 5-12."""

    def entry(i: int, j: int) -> float:
        rates = [fraction(sum(matches_at_both(box, e, i, j) for box in boxes), len(boxes)) for e in events]
        return 1.0 - sum(rates) / len(events)

    return _matrix(schema, entry)


def covariance_of_false_matches(schema: Schema, boxes: Sequence[Box], events: Sequence[Event]) -> Matrix:
    """CFM, Algorithm 11."""

    def entry(i: int, j: int) -> float:
        rates = []
        for e in events:
            matched = [box for box in boxes if matches_at_both(box, e, i, j)]
            rates.append(fraction(sum(not matches(box, e) for box in matched), len(matched)))
        return 1.0 - sum(rates) / len(events)

    return _matrix(schema, entry)


# -- Grunert 2014, 3.4: simulations ---------------------------------------------------------------------------------


class Simulation:
    """The filtering of all events with a regular index over some dimensions, by the reference evaluator."""

    def __init__(self, schema: Schema, filters: Sequence[Filter], events: Sequence[Event], bits: int) -> None:
        self.schema, self.filters, self.events, self.bits = schema, filters, events, bits

    def wasted(self, dimensions: Sequence[int]) -> int:
        """In the order of the papers' false-positive rate, and also where nothing is wanted and all rates are 1."""
        index = GridIndex.regular(self.schema, self.bits, [self.schema.names[d] for d in dimensions])
        return evaluate(index, self.filters, self.events).wasted

    def brute_force(self, count: int) -> tuple[int, ...]:
        """BES, Algorithm 12."""
        best = None
        for dimensions in combinations(range(len(self.schema)), count):
            if best is None or self.wasted(dimensions) < self.wasted(best):
                best = dimensions
        assert best is not None
        return best

    def greedy(self, count: int) -> tuple[int, ...]:
        """GES, Algorithm 13. Of dimensions that are missed equally little, the last goes."""
        selected = tuple(range(len(self.schema)))
        while len(selected) > count:
            best = selected[:-1]
            for gone in reversed(selected):
                fewer = tuple(d for d in selected if d != gone)
                if self.wasted(fewer) < self.wasted(best):
                    best = fewer
            selected = best
        return selected

    def best_count(self) -> int:
        """Algorithm 15, and Bhowmik et al. 2018, Algorithm 4: fewer dimensions only where that is an improvement."""
        best = len(self.schema)
        for count in range(len(self.schema) - 1, 0, -1):
            if self.wasted(self.greedy(count)) < self.wasted(self.greedy(best)):
                best = count
        return best


def workload_of(boxes: Sequence[Box], event: Event) -> int:
    """The load that an event is (4.1): how many subscriptions match it."""
    return sum(matches(box, event) for box in boxes)
