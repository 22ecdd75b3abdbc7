"""Random subscriptions and events over numbered attributes, and what matching them means, said once and slowly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from pleroma.matching.constraint_table import Constraint

ATTRIBUTES = 5
NUMBERS = (-3.0, -0.0, 0.0, 0.25, 0.5, 1.0, 2.0, 7.5, math.nextafter(0.5, 1), 1e300)
"""Few, so that bounds and values drawn apart meet."""

numbers = st.sampled_from(NUMBERS) | st.floats(-4, 8)
attributes = st.integers(0, ATTRIBUTES - 1)


def _constraint(attribute: int, one: float, other: float, kind: int) -> Constraint:
    low, high = min(one, other), max(one, other)
    if kind == 0 or low == high:  # this very value
        return Constraint(attribute, low, math.nextafter(low, math.inf))
    if kind == 1:
        return Constraint(attribute, -math.inf, high)
    if kind == 2:
        return Constraint(attribute, low, math.inf)
    return Constraint(attribute, low, high)


constraints: SearchStrategy[Constraint] = st.builds(_constraint, attributes, numbers, numbers, st.integers(0, 5))
subscriptions: SearchStrategy[list[Constraint]] = st.lists(constraints, max_size=4)
"""Any subset of attributes, none at all, or one twice."""
events: SearchStrategy[dict[int, float]] = st.dictionaries(st.integers(0, ATTRIBUTES + 1), numbers | st.just(-math.inf))


def wants(constraints: Sequence[Constraint], event: Mapping[int, float]) -> bool:
    return all(a in event and low <= event[a] < high for a, low, high in constraints)
