"""What in a lake is of no use any more: parts of hours long past, snapshots that others replaced before, and remains.

A snapshot stays as long as it was valid at some moment that is kept; a file that a writer never finished goes when no
writer can still be at it, and what a killed pass left in `scratch` when it is as old as what is not kept. Parts that
were put together go when nobody can be about to read them any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

from pleroma.pipeline.lake import lake_layout
from pleroma.pipeline.lake.storage import UNFINISHED_SUFFIX, Storage

ABANDONED_SECONDS = 3600.0
"""Seconds after which a file that is still unfinished will never be finished."""


FOLDED_PARTS_SECONDS = 86_400.0
"""Seconds for which the parts of a fold stay: who has planned to read them by then has done so."""

_KINDS = (*lake_layout.PART_KINDS, "subscriptions", "plans", "schemas", "sampling", "windows", "decisions", "scratch")


def expired(storage: Storage, older_than: datetime, now: float) -> Iterator[str]:
    """Paths of what only tells of moments before; `now` is in seconds since 1970, as the times of files are."""
    for kind in _KINDS:
        snapshots: dict[str, list[tuple[datetime, str]]] = {}
        kept: list[lake_layout.LandedFile] = []
        ages: dict[str, float] = {}
        for path, _, changed in storage.listed(kind):
            ages[path] = now - changed.timestamp() if changed else 0.0
            part, since = lake_layout.landed_file(path), lake_layout.snapshot_since(path)
            if part is not None and lake_layout.hour_of(part) + lake_layout.ONE_HOUR <= older_than:
                yield path
            elif part is not None:
                kept.append(part)
            elif since is not None:
                snapshots.setdefault(path.rpartition("/")[0], []).append((since, path))
            elif (path.endswith(UNFINISHED_SUFFIX) and ages[path] > ABANDONED_SECONDS) or (
                kind == "scratch" and changed and changed < older_than
            ):
                yield path
        for part, whole in lake_layout.folded(kept):
            if ages[whole.path] > FOLDED_PARTS_SECONDS:
                yield part.path
        for listed in snapshots.values():
            for (_, path), (until, _) in pairwise(sorted(listed)):
                if until <= older_than:
                    yield path
