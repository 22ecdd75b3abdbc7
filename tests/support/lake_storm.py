"""A program of a storm on a lake: it lands, tidies up, settles or reads, and may be killed at any moment.

Arguments: what it does, the lake's URL, and for a landing program its name and how many batches, for a stream the file
that it keeps what it has seen in.
"""

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.landed import BatchId, ReportedCounters, ReportRow
from pleroma.pipeline.lake.maintenance import maintain
from pleroma.pipeline.lake.settling import settle
from support.lake_writer import EVENTS_PER_BATCH, SHARED_SENDER, batch_of

BEGIN = datetime(2026, 11, 15, 12, tzinfo=UTC)
STEP = timedelta(minutes=11)
FOR_EVER = float("inf")
"""In days."""


def subscribed(position: int) -> list[tuple[str, str, str, str]]:
    """All subscriptions at a position of the log: some end with each, some change, and one is always there."""
    changing = ("changing", "me", f"h{position}", "[{}]")
    return [("always", "me", "h1", "[{}]"), changing, *((f"s{position + n}", "me", "h1", "[{}]") for n in range(3))]


def land(lake: Lake, name: str, count: int) -> None:
    """Land the batches of two senders, and all changes of subscriptions, from the first on: others do the same."""
    for number in range(count):
        at = BEGIN + number * STEP
        for sender in (SHARED_SENDER, name):
            batch = BatchId(sender, number)
            lake.land_events(batch_of(sender, number), [at] * EVENTS_PER_BATCH, 1, 1.0, batch)
            lake.land_reports([ReportedCounters("stock", at, (ReportRow(sender, "me", number),), batch)])
        lake.land_subscriptions("stock", at, subscribed(number), number)


def tidy(lake: Lake) -> None:
    while True:
        failed = maintain(lake, FOR_EVER, BEGIN + timedelta(days=2)).failed
        if failed:
            print(*failed, file=sys.stderr, flush=True)


def settle_on(lake: Lake) -> None:
    while True:
        settle(lake, "subscriptions", "stock")


def seen(path: Path) -> Iterator[tuple[int, list[int]]]:
    """What a stream has seen by now: how far it had come with each step, and the ids of the events in it."""
    for line in path.read_text().splitlines(keepends=True) if path.exists() else ():
        if line.endswith("\n"):  # the last may be cut off
            yield tuple(json.loads(line))


def stream(lake: Lake, path: Path) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

    from pleroma.pipeline.lake.lake_query import LakeQuery
    from pleroma.pipeline.lake.spark_source import LakeStream

    reader = LakeStream(LakeQuery(lake.url, "stock"), ["id"])
    steps = list(seen(path))
    path.write_text("".join(f"{json.dumps(each)}\n" for each in steps))
    start = {"landing": steps[-1][0]} if steps else reader.initialOffset()
    while True:
        end = reader.latestOffset(start, ReadMaxFiles(1) if start["landing"] % 2 else ReadAllAvailable())
        if end == start:
            continue
        batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
        ids = [each for batch in batches for each in batch["id"].to_pylist()]
        with path.open("a") as file:
            file.write(f"{json.dumps([end['landing'], ids])}\n")
        start = end


def main() -> None:
    what, url, *more = sys.argv[1:]
    lake = Lake.at(url)
    print("begun", flush=True)
    match what:
        case "land":
            land(lake, more[0], int(more[1]))
        case "stream":
            stream(lake, Path(more[0]))
        case "tidy":
            tidy(lake)
        case "settle":
            settle_on(lake)


if __name__ == "__main__":
    main()
