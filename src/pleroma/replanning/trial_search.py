"""A search for nobody, on a tiny made-up network: it compiles what every search needs.

Compiled code is kept on disk, so that takes a minute after an installation and a second or two later.
"""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from pleroma.content import Filter, Integer, Real, Schema
from pleroma.content.batch import EventBatch
from pleroma.content.filter_json import to_json
from pleroma.control.state.command import canonical
from pleroma.index import GridIndex
from pleroma.replanning.decisions import WatchSettings
from pleroma.replanning.live_replanner import RegistrationNews, SchemaNews
from pleroma.replanning.plan_in_force import PlanInForce
from pleroma.replanning.planning_worker import Ask
from pleroma.routing import build

_SCHEMA = Schema("a trial", (Real("x", False, 0.0, 999.0), Integer("y", True, 0, 999)))
"""No schema of a controller has a name with a space."""
_BITS = 20


def trial_search(settings: WatchSettings) -> Ask:
    """A question that makes the planning process search by some settings."""
    texts = [f"x >= {7 * n} and x < {7 * n + 90} and y >= {6 * n} and y < {6 * n + 50}" for n in range(100)]
    wanted = (Filter.parse(_SCHEMA, each) for each in (*texts, "x > 3", "y < 990", "x < 990 and y > 3"))
    come = {f"s{number}": (f"h{2 + number % 2}", canonical(to_json(each))) for number, each in enumerate(wanted)}
    values = np.random.default_rng(0).integers(0, 1000, (2, 2 * settings.least))
    news = SchemaNews(
        datetime.now(UTC),
        subscriptions=RegistrationNews(come),
        plan=PlanInForce(1, GridIndex.regular(_SCHEMA, _BITS), 4),
        topology=build("line:3"),
        events=(EventBatch.from_columns(_SCHEMA, dict(zip("xy", values, strict=True))),),
    )
    return Ask(_SCHEMA, settings, news, is_first=True)
