"""What an operator may set about collecting: the lake, the rate of samples, how long they are kept, and the files."""

from __future__ import annotations

from dataclasses import dataclass

from pleroma.errors import SetupError
from pleroma.pipeline.lake.landed import LEAST_SAMPLING_RATE


@dataclass(frozen=True, slots=True)
class CollectingSettings:
    lake: str
    sample: float = 0.01
    """The part of their events that publishers send, unless another rate was chosen for the schema."""
    keep_days: float = 30.0
    land_seconds: float = 5.0
    """Enough for a file is written to the lake after this time, less (`landing_queue`) after a longer one."""
    events_per_file: int = 50_000
    """At most so many events are landed at once."""
    max_waiting: int = 200_000
    """Events that may wait to be landed; and as many reports."""

    def __post_init__(self) -> None:
        if not (self.sample == 0 or LEAST_SAMPLING_RATE <= self.sample <= 1):
            reason = f"is a rate from {LEAST_SAMPLING_RATE:g} to 1, or 0"
            raise SetupError(reason, field="sample", value=self.sample)
        for name in ("keep_days", "land_seconds", "events_per_file", "max_waiting"):
            if not getattr(self, name) > 0:
                raise SetupError("must be more than 0", field=name, value=getattr(self, name))
