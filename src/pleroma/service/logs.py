"""Logs: one event a line, as JSON where a program reads them and in colours where a person does.

Requests are not logged one by one (the metrics count them); refusals of tokens and failures are. A log line has the
route of a request and never its path, query, headers or body, so that no token can get there.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from typing import Literal, TextIO

import structlog

_QUIET_LIBRARIES = ("uvicorn", "uvicorn.error", "asyncio", "httpx")
"""Of these only warnings are logged, and what is more serious."""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is logged, and in which form."""

    form: Literal["json", "text"] | None = None
    """None is text on a terminal and JSON everywhere else."""
    level: Literal["debug", "info", "warning", "error"] = "info"


def configure(settings: LogSettings | None = None, stream: TextIO | None = None) -> None:
    """Send our events, and those of the libraries that use `logging`, to one place: standard error, if not told."""
    out, settings = stream or sys.stderr, settings or LogSettings()
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    rendering: list[structlog.typing.Processor]
    if settings.form == "text" or (settings.form is None and out.isatty()):
        plain = structlog.dev.plain_traceback  # the other one shows local variables
        rendering = [structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=plain)]
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
    for name in _QUIET_LIBRARIES:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
