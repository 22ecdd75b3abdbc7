"""A few of a publisher's events, for the controller: drawn at the rate that the plan asks for, and kept until sent.

How many events to pass over before the next is drawn at once, when one was taken (the gaps of independent choices are
geometric). So an event that is passed over costs one subtraction.
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
"""Drawn events of one publisher that wait to be sent."""
MAX_SAMPLES_PER_REQUEST = 500
"""Events in one request."""

log = logging.getLogger("pleroma.client")


class DrawnEvent(NamedTuple):
    event: Event
    channel: SchemaChannel
    at: float
    """Seconds on a clock that never goes back."""


class Sampler:
    """`left` is how many events are passed over before the next is drawn: count it down with every event."""

    def __init__(
        self,
        channel: SchemaChannel,
        draw: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.dropped = 0
        """Events that were drawn when there was no room for them."""
        self._draw = draw
        self._clock = clock
        self._drawn: deque[DrawnEvent] = deque()
        self.follow(channel)

    def __len__(self) -> int:
        return len(self._drawn)

    def follow(self, channel: SchemaChannel) -> None:
        """Go on with the rate of another plan."""
        self._channel = channel
        rate = channel.sample
        # of rate 1 the gaps are 0, and without sampling the first is endless
        self._scale = 0.0 if rate >= 1 else 1 / math.log1p(-rate) if rate > 0 else -math.inf
        self.left = self._gap()

    def take(self, event: Event) -> None:
        """The count has come to its end with this event."""
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
        """The oldest that can go together in one request, taken out; none if nothing waits."""
        taken: list[DrawnEvent] = []
        while (
            self._drawn
            and len(taken) < MAX_SAMPLES_PER_REQUEST
            and (not taken or taken[0].channel is self._drawn[0].channel)
        ):
            taken.append(self._drawn.popleft())
        return taken

    def give_back(self, portion: list[DrawnEvent]) -> None:
        """They could not be sent now. The oldest go where there is no room for all."""
        kept = portion[max(len(portion) + len(self._drawn) - MAX_WAITING_SAMPLES, 0) :]
        self.dropped += len(portion) - len(kept)
        self._drawn.extendleft(reversed(kept))

    def written(self, portion: list[DrawnEvent]) -> dict[str, Any]:
        """As the body of a request."""
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
    """Send what waits. What nobody takes now is kept, and what nobody will ever take is not."""
    from pleroma.client.api import is_temporary  # brings httpx, which is there if somebody has an Api

    while portion := samples.portion():
        try:
            await api.ask("POST", "/v1/samples", samples.written(portion))
        except ClientError as error:
            if is_temporary(error):
                samples.give_back(portion)
                raise
            log.info("samples are not wanted: %s", error)
