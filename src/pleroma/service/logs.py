"""Logs: one event a line, as JSON where a program reads them and in colours where a person does.

Requests are not logged one by one (the metrics count them); refusals of tokens and failures are. A log line has the
route of a request and never its path, query, headers or body, so that no token can get there.
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import structlog


def configure(stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Send our events, and those of the libraries that use `logging`, to one place."""
    out = stream or sys.stderr
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    rendering: list[structlog.typing.Processor]
    if out.isatty():
        rendering = [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    else:
        rendering = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    for old in root.handlers[:]:
        if isinstance(old.formatter, structlog.stdlib.ProcessorFormatter):
            root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    for name in ("uvicorn", "uvicorn.error", "asyncio", "httpx"):
        logging.getLogger(name).setLevel(logging.WARNING)
