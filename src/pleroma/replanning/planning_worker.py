"""The planning process: reads news of schemas from its standard input, and writes what a look at each found.

Messages are pickled, each behind its length. The process ends when its input does, and in the middle of a search soon
after the controller is gone, so it does not outlive the controller.
Run as `python -m pleroma.replanning.planning_worker`, by the controller only.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from typing import Any, BinaryIO, NamedTuple

from pleroma.content import Schema
from pleroma.content.batch import EventBatch
from pleroma.errors import PleromaError, ServiceError
from pleroma.index import Index
from pleroma.replanning.decisions import WatchSettings
from pleroma.replanning.live_replanner import LiveReplanner, Look, PlanForecast, SchemaNews

LENGTH_BYTES = 8
NICENESS = 10
"""Requests and packets go before planning."""
PARENT_CHECK_SECONDS = 0.5
"""How often to see whether the controller is still there."""


class Ask(NamedTuple):
    """News of a schema, and what is asked: a look at it, or what a plan would do.

    The first news of a schema tell everything.
    """

    schema: Schema
    settings: WatchSettings
    news: SchemaNews
    is_first: bool
    plan: tuple[Index, int, EventBatch | None] | None = None
    """For a forecast: an index, a limit of dz per registration, and recent events."""


class LookFailed(NamedTuple):
    error: PleromaError


def framed(message: object) -> bytes:
    body = pickle.dumps(message)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the controller decides when to stop
    os.nice(NICENESS)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints must not come among the answers
    serve_planning(sys.stdin.buffer, answers)


def _end_with(parent: int) -> None:
    """End this process when its parent has ended: a search would go on for nobody."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    os._exit(0)


def serve_planning(asked: BinaryIO, answers: BinaryIO) -> None:
    """Answer until the input ends."""
    planners: dict[str, LiveReplanner] = {}
    while (message := _read(asked)) is not None:
        answers.write(framed(_answer(planners, message)))
        answers.flush()


def _answer(planners: dict[str, LiveReplanner], asked: Ask) -> Look | PlanForecast | LookFailed:
    name = asked.schema.name
    try:
        if asked.is_first or name not in planners:
            planners[name] = LiveReplanner(asked.schema, asked.settings, asked.news)
        planner = planners[name]
        return planner.look(asked.news) if asked.plan is None else planner.forecast(asked.news, *asked.plan)
    except PleromaError as error:
        return LookFailed(error)
    except Exception as error:  # whatever it is, what is known of other schemas is not lost
        return LookFailed(ServiceError(f"{type(error).__name__}: {error}"))


def _read(stream: BinaryIO) -> Any:
    """The next message; None at the end, which may be in the middle of one."""
    length = stream.read(LENGTH_BYTES)
    body = stream.read(int.from_bytes(length, "big")) if len(length) == LENGTH_BYTES else b""
    if not body or len(body) < int.from_bytes(length, "big"):
        return None
    return pickle.loads(body)  # noqa: S301  # the controller wrote it


if __name__ == "__main__":
    from pleroma.replanning import planning_worker  # what it answers is pickled by the name that the controller knows

    planning_worker.main()
