"""How many events many covers hold, cover by cover."""

from collections.abc import Sequence

import numpy as np

from pleroma.index import DzSet
from pleroma.index.codes import Codes
from pleroma.index.dz_rows import events_in, packed


def held(codes: Codes, covers: Sequence[DzSet]) -> int:
    """How many (event, cover) pairs there are in which the cover holds the event."""
    return int(events_in(codes, np.concatenate([packed(each) for each in covers])).sum()) if covers else 0
