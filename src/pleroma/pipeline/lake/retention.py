"""Which files of a lake have expired: parts of hours long past, replaced snapshots, and remains of killed processes.

A snapshot stays while it was valid at some moment that is kept. A file that a writer never finished expires when no
writer can still be at it, and a file that a killed pass left in `scratch` when it is older than what is kept. Parts
that are in a fold expire when nobody can be about to read them any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

from pleroma.pipeline.lake import lake_layout
from pleroma.pipeline.lake.storage import UNFINISHED_SUFFIX, Storage

ABANDONED_SECONDS = 3600.0
"""After so long a file that is still unfinished will never be finished."""
FOLDED_PARTS_SECONDS = 86_400.0
"""How long the parts of a fold stay beside it: whoever planned to read them has done so by then."""

_KINDS = (*lake_layout.PART_KINDS, "subscriptions", "plans", "schemas", "sampling", "windows", "decisions", "scratch")


def expired(storage: Storage, older_than: datetime, now: float) -> Iterator[str]:
    """Paths of files that only tell of moments before `older_than`; `now` is in seconds since 1970, like file times."""
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
