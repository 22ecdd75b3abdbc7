"""Samples of a publisher's events for the controller: drawn at the rate that the plan asks for, and kept until sent.

They are sent in numbered batches. One that got no answer is sent again as it was, and the controller takes it once.

When an event was drawn, the number of events to skip until the next is drawn at once (the gaps between independent
choices have a geometric distribution). So an event that is skipped costs one subtraction.
"""

from __future__ import annotations

import logging
import math
import random
import secrets
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


class SampleBatch(NamedTuple):
    """Events that are sent in one request; they all have the same plan."""

    number: int
    drawn: tuple[DrawnEvent, ...]


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
        self._sender = secrets.token_hex(8)
        self._next_number = 0
        self._sending: SampleBatch | None = None
        """The batch that was sent last, until the controller has answered."""
        self.follow(channel)

    def __len__(self) -> int:
        return len(self._drawn) + (0 if self._sending is None else len(self._sending.drawn))

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
        if len(self) < MAX_WAITING_SAMPLES:
            self._drawn.append(DrawnEvent(self._channel.current(event), self._channel, self._clock()))
        else:
            self.dropped += 1

    def _gap(self) -> float:
        if self._scale == -math.inf:
            return math.inf
        return math.floor(math.log(1.0 - self._draw()) * self._scale)

    def batch(self) -> SampleBatch | None:
        """What is to be sent now: the batch that nobody has answered yet, or one of the oldest events."""
        if self._sending is None and self._drawn:
            taken: list[DrawnEvent] = []
            channel = self._drawn[0].channel
            while self._drawn and len(taken) < MAX_SAMPLES_PER_REQUEST and self._drawn[0].channel is channel:
                taken.append(self._drawn.popleft())
            self._sending = SampleBatch(self._next_number, tuple(taken))
            self._next_number += 1
        return self._sending

    def answered(self, batch: SampleBatch) -> None:
        """The controller took the events of a batch, or does not want them."""
        if batch is self._sending:
            self._sending = None

    def written(self, batch: SampleBatch) -> dict[str, Any]:
        """A batch as the body of a request."""
        now, channel = self._clock(), batch.drawn[0].channel
        columns = {
            attribute.name: [attribute.json_value(each.event.value_keys[d]) for each in batch.drawn]
            for d, attribute in enumerate(channel.schema.attributes)
        }
        return {
            "schema": channel.schema.name,
            "epoch": channel.epoch,
            "rate": channel.sample,
            "ages": [round(min(max(now - each.at, 0.0), MAX_SAMPLE_AGE_SECONDS), 6) for each in batch.drawn],
            "columns": columns,
            "batch": {"sender": self._sender, "number": batch.number},
        }


async def send_samples(api: ControllerApi, samples: Sampler) -> None:
    """Send the samples that wait. If the controller is away or busy they are kept, if it refuses them they are not."""
    from pleroma.client.api import is_temporary  # brings httpx, which is loaded already where there is an API client

    while batch := samples.batch():
        try:
            await api.ask("POST", "/v1/samples", samples.written(batch))
        except ClientError as error:
            if is_temporary(error):
                raise
            log.info("samples are not wanted: %s", error)
        samples.answered(batch)
