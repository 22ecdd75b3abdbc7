"""Many events as columns: one array of keys per attribute, so that checking, matching and encoding run at array speed.

A batch holds what a list of events holds and answers as they would, one by one. It needs numpy, which the rest of
`content` does without; import it only where numpy is at hand.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pleroma.content.attribute import Attribute
from pleroma.content.batch_columns import absent_column, checked_column
from pleroma.content.event import Event
from pleroma.content.filter import Box, Filter
from pleroma.content.range import Key, Range
from pleroma.content.schema import Schema
from pleroma.content.text import Text
from pleroma.errors import ContentError
