"""Events as they might come where none were seen: at random places of subscriptions, where somebody publishes.

The first plan of a schema is learned from them. They tell subscriptions apart, which is what a plan is for, though not
which of them will be busy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pleroma.content import Attribute, Box, Event, Filter, Range, Real, Schema, Text
from pleroma.content.batch import EventBatch
from pleroma.replanning.situation import NetworkSituation

IMAGINED_EVENTS = 4_000
ANYWHERE_SHARE = 0.25
"""The share of events that are drawn from what is published, wherever subscriptions are."""
MAX_TRIES = 4
"""Events in a subscription that nobody publishes are drawn anew, so often at most."""


def imagined_events(situation: NetworkSituation, count: int = IMAGINED_EVENTS, seed: int = 0) -> EventBatch:
    """About `count` events; none if nobody publishes anything that could be drawn."""
    random = np.random.default_rng([seed, 4])
    schema = situation.schema
    known = situation.advertisements
    promised = [each.filter for each in known] if known else [Filter.everything(schema)]
    wished = [box for each in situation.filters for box in each.boxes]
    offered = [box for each in promised for box in each.boxes]
    words = _words(schema, [*wished, *offered])
    found: list[Event] = []
    for _ in range(MAX_TRIES):
        missing = count - len(found)
        if missing <= 0 or not offered:
            break
        drawn = [_event(schema, _pick(wished, offered, random), words, random) for _ in range(missing)]
        found += [event for event in drawn if any(each.matches(event) for each in promised)]
    return EventBatch.from_events(schema, found)


def _pick(wished: Sequence[Box], offered: Sequence[Box], random: np.random.Generator) -> Box:
    boxes = offered if not wished or random.random() < ANYWHERE_SHARE else wished
    return boxes[int(random.integers(len(boxes)))]


def _event(schema: Schema, box: Box, words: dict[str, list[bytes]], random: np.random.Generator) -> Event:
    keys = (
        _key(attribute, part, words.get(attribute.name, []), random)
        for attribute, part in zip(schema.attributes, box.ranges, strict=True)
    )
    return Event(schema, tuple(keys))


def _key(attribute: Attribute, part: Range, words: Sequence[bytes], random: np.random.Generator) -> Any:
    """A random key in a range: one of the words that subscriptions name if it is a text, else uniformly."""
    inside = part.meet(attribute.present)
    if inside is None:
        return attribute.absent
    low, high = inside
    if isinstance(attribute, Text):
        known = [word for word in words if word in inside]
        return known[int(random.integers(len(known)))] if known else low
    if isinstance(attribute, Real):
        drawn = float(low) + random.random() * (float(high) - float(low))
        return drawn if drawn in inside else low
    return int(random.integers(int(low), int(high)))


def _words(schema: Schema, boxes: Sequence[Box]) -> dict[str, list[bytes]]:
    """By text attribute: the texts that boxes begin at."""
    return {
        attribute.name: sorted(
            {low for box in boxes if isinstance(low := box.ranges[d].lo, bytes) and low in attribute.present}
        )
        for d, attribute in enumerate(schema.attributes)
        if isinstance(attribute, Text)
    }
