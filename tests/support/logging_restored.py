"""Logging as it was: `pleroma.service.logs.configure` is for a whole process, and a worker runs many tests in one."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog


@contextmanager
def logging_restored() -> Iterator[None]:
    """What the block configures ends with it: handlers and level of the root logger, and structlog's own settings."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.reset_defaults()
