"""A program that lands batches in a lake: its own, and those of a sender that other such programs are at the same time.

Arguments: the lake's URL, a name, how many batches. It waits for a line on standard input before it begins.
"""

import sys
from datetime import UTC, datetime

from pleroma.content.batch import EventBatch
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.landed import BatchId
from support.strategies import STOCK

EVENTS_PER_BATCH = 5
SHARED_SENDER = "shared"


def batch_of(name: str, number: int) -> EventBatch:
    """Events that tell by their ticker and volume whose they are."""
    volumes = range(number * EVENTS_PER_BATCH, (number + 1) * EVENTS_PER_BATCH)
    return EventBatch.from_events(
        STOCK, [STOCK.event(price=1.0, volume=each, ticker=name, market="nyse") for each in volumes]
    )


def main() -> None:
    url, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    lake = Lake.at(url)
    sys.stdin.readline()
    moments = [datetime.now(UTC)] * EVENTS_PER_BATCH
    for number in range(count):
        for sender in (name, SHARED_SENDER):
            lake.land_events(batch_of(sender, number), moments, 1, 1.0, BatchId(sender, number))
    print("done", flush=True)


if __name__ == "__main__":
    main()
