"""Samples of a publisher's events for the controller: drawn at the rate that the plan asks for, and kept until sent.

When an event was drawn, the number of events to skip until the next is drawn at once (the gaps between independent
choices have a geometric distribution). So an event that is skipped costs one subtraction.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from pleroma.client.session.schema_channel import SchemaChannel
from pleroma.content import Event
from pleroma.errors import ClientError
from pleroma.wire.api_terms import MAX_SAMPLE_AGE_SECONDS

if TYPE_CHECKING:
    from pleroma.client.api import ControllerApi

MAX_WAITING_SAMPLES = 10_000
"""Of one publisher."""
MAX_SAMPLES_PER_REQUEST = 500
"""Events in one request."""

log = logging.getLogger("pleroma.client")


class DrawnEvent(NamedTuple):
    event: Event
    channel: SchemaChannel
    at: float
    """When it was published, in seconds of a clock that never goes back."""


class Sampler:
    """`left` is how many events are skipped before the next is drawn: the publisher counts it down with every event."""

    def __init__(
        self,
        channel: SchemaChannel,
        draw: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.dropped = 0
        """Drawn events that were thrown away, because too many waited."""
        self._draw = draw
        self._clock = clock
        self._drawn: deque[DrawnEvent] = deque()
        self.follow(channel)

    def __len__(self) -> int:
        return len(self._drawn)

    def follow(self, channel: SchemaChannel) -> None:
        """Go on with the rate that another plan asks for."""
        self._channel = channel
        rate = channel.sample
        # at rate 1 every gap is 0; at rate 0 the first gap never ends
        self._scale = 0.0 if rate >= 1 else 1 / math.log1p(-rate) if rate > 0 else -math.inf
        self.left = self._gap()

    def take(self, event: Event) -> None:
        """Draw this event: `left` has come to its end."""
        self.left = self._gap()
        if len(self._drawn) < MAX_WAITING_SAMPLES:
            self._drawn.append(DrawnEvent(event, self._channel, self._clock()))
        else:
            self.dropped += 1

    def _gap(self) -> float:
        if self._scale == -math.inf:
            return math.inf
        return math.floor(math.log(1.0 - self._draw()) * self._scale)

    def portion(self) -> list[DrawnEvent]:
        """Take out the oldest events that can be sent in one request, which all have the same plan."""
        taken: list[DrawnEvent] = []
        while (
            self._drawn
            and len(taken) < MAX_SAMPLES_PER_REQUEST
            and (not taken or taken[0].channel is self._drawn[0].channel)
        ):
            taken.append(self._drawn.popleft())
        return taken

    def give_back(self, portion: list[DrawnEvent]) -> None:
        """Put back events that could not be sent. If there is no room for all, the oldest are thrown away."""
        kept = portion[max(len(portion) + len(self._drawn) - MAX_WAITING_SAMPLES, 0) :]
        self.dropped += len(portion) - len(kept)
        self._drawn.extendleft(reversed(kept))

    def written(self, portion: list[DrawnEvent]) -> dict[str, Any]:
        """Events as the body of a request."""
        now, channel = self._clock(), portion[0].channel
        columns = {
            attribute.name: [attribute.value(each.event.keys[d]) for each in portion]
            for d, attribute in enumerate(channel.schema.attributes)
        }
        return {
            "schema": channel.schema.name,
            "epoch": channel.epoch,
            "rate": channel.sample,
            "ages": [round(min(max(now - each.at, 0.0), MAX_SAMPLE_AGE_SECONDS), 6) for each in portion],
            "columns": columns,
        }


async def send_samples(api: ControllerApi, samples: Sampler) -> None:
    """Send the samples that wait. If the controller is away or busy they are kept, if it refuses them they are not."""
    from pleroma.client.api import is_temporary  # brings httpx, which is loaded already where there is an API client

    while portion := samples.portion():
        try:
            await api.ask("POST", "/v1/samples", samples.written(portion))
        except ClientError as error:
            if is_temporary(error):
                samples.give_back(portion)
                raise
            log.info("samples are not wanted: %s", error)
