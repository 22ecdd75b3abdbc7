"""What in a lake is of no use any more: parts of hours long past, snapshots that others replaced before, and remains.

A snapshot stays as long as it was valid at some moment that is kept; a file that a writer never finished goes when no
writer can still be at it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

from pleroma.pipeline import layout
from pleroma.pipeline.storage import UNFINISHED, Storage

ABANDONED = 3600.0
"""Seconds after which a file that is still unfinished will never be finished."""


def expired(storage: Storage, older_than: datetime, now: float) -> Iterator[str]:
    """Paths of what only tells of moments before; `now` is in seconds since 1970, as the times of files are."""
    for kind in ("events", "reports", "subscriptions", "plans", "schemas"):
        snapshots: dict[str, list[tuple[datetime, str]]] = {}
        for path, _, changed in storage.listed(kind):
            part, since = layout.landed_file(path), layout.snapshot_since(path)
            if part is not None and layout.hour_of(part) + layout.HOUR <= older_than:
                yield path
            elif since is not None:
                snapshots.setdefault(path.rpartition("/")[0], []).append((since, path))
            elif path.endswith(UNFINISHED) and changed and now - changed.timestamp() > ABANDONED:
                yield path
        for listed in snapshots.values():
            for (_, path), (until, _) in pairwise(sorted(listed)):
                if until <= older_than:
                    yield path
