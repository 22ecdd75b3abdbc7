"""Which source files a piece of work passes through: every file of the package whose Python code runs meanwhile.

Compiled kernels leave no trace, and neither does code that runs once on import: do the work before you trace it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pleroma

PACKAGE = Path(pleroma.__file__).parent


class WayTrace:
    """Threads that start after this is made are traced too, such as the one that writes the log."""

    def __init__(self) -> None:
        self._tracing = False
        self._files: list[str] = []
        self._beginning = f"{PACKAGE}/"
        threading.setprofile(self._called)

    @contextmanager
    def tracing(self) -> Iterator[list[str]]:
        """The files in the order in which they are first entered, filled while the block runs."""
        files: list[str] = []
        self._files = files
        self._tracing = True
        sys.setprofile(self._called)
        try:
            yield files
        finally:
            sys.setprofile(None)
            self._tracing = False

    def close(self) -> None:
        threading.setprofile(None)

    def _called(self, frame: FrameType, kind: str, _: Any) -> None:
        if not self._tracing or kind != "call" or frame.f_code.co_name == "<module>":
            return
        path = frame.f_code.co_filename
        if path.startswith(self._beginning):
            name = path.removeprefix(self._beginning)
            if name not in self._files:
                self._files.append(name)
