"""The types of arrays that kernels and their callers exchange: one name a type."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Words = NDArray[np.uint64]
Words32 = NDArray[np.uint32]
Words16 = NDArray[np.uint16]
Marks = NDArray[np.bool_]

Int = int | np.int64
"""One whole number: a Python one outside of compiled code, 64 bits wide inside."""
