"""Subscriptions drawn around events, for data that comes without any.

Each is drawn around one random event, and limits one random attribute, and every other with a certain chance. A number
is limited to a range around that of the event which holds, on average, a given share of all events: so a range is
narrow where events are dense, whatever the unit. A word is limited to that of the event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

import numpy as np

from pleroma.content import Attribute, Box, Category, Filter, Range, Text
from pleroma.content.batch import Column, EventBatch
from pleroma.content.range import Key
from pleroma.errors import WorkloadError
from pleroma.workloads.setting_checks import check_number, check_positive, check_whole
from pleroma.workloads.stock import MAX_SUBSCRIPTIONS

WORDS = (Category, Text)
"""Kinds of attribute whose values are asked for one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionsAround:
    """How many are drawn, and how."""

    subscriptions: int
    limited: float = 0.4
    """Each subscription limits one attribute, and each of the others with this chance."""
    width: float = 0.2
    """The share of all events that a range holds on average."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole("subscriptions", self.subscriptions, 1, MAX_SUBSCRIPTIONS)
        check_number("limited", self.limited, 0, 1)
        check_positive("width", self.width, 1)
        check_whole("seed", self.seed, 0)

    def drawn(self, events: EventBatch) -> Iterator[Filter]:
        """The same events and settings give the same; more subscriptions begin with those of fewer."""
        if not len(events):
            raise WorkloadError("there are no events to draw subscriptions around", field="subscriptions")
        schema, attributes = events.schema, events.schema.attributes
        ordered = {d: np.sort(events.columns[d]) for d, each in enumerate(attributes) if not isinstance(each, WORDS)}
        random = np.random.default_rng(self.seed)
        for _ in range(self.subscriptions):
            centre, always, *rest = random.random(2 + 2 * len(attributes)).tolist()
            keys = events.event(int(centre * len(events))).value_keys
            ranges = []
            for d, attribute in enumerate(attributes):
                chance, share = rest[2 * d : 2 * d + 2]
                is_limited = d == int(always * len(attributes)) or chance < self.limited
                if not is_limited or keys[d] not in attribute.present:  # an event that lacks it tells nothing
                    ranges.append(attribute.domain)
                elif d in ordered:
                    ranges.append(_around(attribute, ordered[d], keys[d], 2 * self.width * share))
                else:
                    ranges.append(Range(keys[d], attribute.successor(keys[d])))
            yield Filter(schema, (Box(tuple(ranges)),))

    def described(self) -> Any:
        return {"kind": "around events", **asdict(self)}


def _around(attribute: Attribute, ordered: Column, key: Key, share: float) -> Range:
    """The range around a key that holds this share of the ordered keys, half of it on either side."""
    half = share * len(ordered) / 2
    low = max(ceil(np.searchsorted(ordered, key, "left") - half), 0)
    high = min(int(np.searchsorted(ordered, key, "right") - 1 + half), len(ordered) - 1)
    least = max(ordered[low].item(), attribute.present.lo)  # what an event lacks lies below all values
    return Range(least, attribute.successor(ordered[high].item()))
