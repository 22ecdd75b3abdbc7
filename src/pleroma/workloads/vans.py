"""Delivery vans: seven attributes of every kind, and the subscriptions that dispatchers, customers and garages have.

Vans drive around a few towns. Most subscriptions ask for a part of the map and for one thing more; some follow a van,
some ask for what is rare everywhere (a warm cold store, a breakdown), and a few for what is common (fast vans).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from pleroma.content import Category, Filter, Integer, Real, Schema, Text
from pleroma.content.batch import EventBatch
from pleroma.workloads.setting_checks import check_whole
from pleroma.workloads.workload import Workload

STATUSES = ("driving", "loading", "delivering", "parked", "delayed", "broken")
STATUS_SHARES = (0.45, 0.1, 0.2, 0.15, 0.08, 0.02)
TOWNS = ((52.52, 13.40), (48.14, 11.58), (53.55, 10.00), (50.94, 6.96), (51.34, 12.37))
"""Latitude and longitude; the first is the largest."""
TOWN_SHARES = (0.4, 0.2, 0.2, 0.12, 0.08)
VANS = 120
DAY_SECONDS = 86_400

VANS_SCHEMA = Schema(
    "vans",
    (
        Text("id", False),
        Real("latitude", False, 47.0, 56.0),
        Real("longitude", False, 5.0, 16.0),
        Real("speed", False, 0.0, 160.0),
        Real("temperature", False, -30.0, 60.0),
        Category("status", False, STATUSES),
        Integer("time", False, 0, DAY_SECONDS - 1),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VansModel:
    """How many events and subscriptions are drawn."""

    events: int = 10_000
    subscriptions: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("events", "subscriptions", "seed"):
            check_whole(name, getattr(self, name), 0)


def generate_vans(model: VansModel | None = None) -> Workload:
    model = model or VansModel()
    events, wishes = (np.random.default_rng([model.seed, part]) for part in range(2))
    filters = tuple(Filter.parse(VANS_SCHEMA, _wish(wishes)) for _ in range(model.subscriptions))
    return Workload(VANS_SCHEMA, _events(model.events, events), filters, {"kind": "vans", "settings": asdict(model)})


def _events(count: int, random: np.random.Generator) -> EventBatch:
    """Positions of random vans at random moments of the day."""
    van = random.integers(0, VANS, count)
    town = np.searchsorted(np.cumsum(TOWN_SHARES), (van * 0.618034) % 1.0)
    place = np.array(TOWNS)[town] + random.normal(0.0, 0.12, (count, 2))
    status = random.choice(len(STATUSES), count, p=STATUS_SHARES)
    moving = status == STATUSES.index("driving")
    is_cold = van % 3 == 0
    outside, inside = random.normal(12.0, 6.0, count), random.normal(4.0, 1.5, count)
    return EventBatch.from_columns(
        VANS_SCHEMA,
        {
            "id": [_name(each) for each in van.tolist()],
            "latitude": np.clip(place[:, 0], 47.0, 56.0),
            "longitude": np.clip(place[:, 1], 5.0, 16.0),
            "speed": np.where(moving, np.clip(random.gamma(6.0, 9.0, count), 1.0, 160.0), 0.0),
            "temperature": np.clip(np.where(is_cold, inside, outside), -30.0, 60.0),
            "status": [STATUSES[each] for each in status.tolist()],
            "time": np.clip(random.normal(13 * 3600, 3 * 3600, count), 0, DAY_SECONDS - 1).astype(np.int64),
        },
    )


def _wish(random: np.random.Generator) -> str:
    town = TOWNS[int(random.choice(len(TOWNS), p=TOWN_SHARES))]
    area = _area(town, random)
    hour = int(random.integers(6, 20))
    conditions = (
        (0.20, f"{area} and status = 'delayed'"),
        (0.15, f"{area} and status in ('delivering', 'loading')"),
        (0.15, f"id = '{_name(int(random.integers(0, VANS)))}'"),
        (0.10, f"{area} and speed > {int(random.integers(60, 100))}"),
        (0.10, f"temperature > {int(random.integers(7, 10))} and {area} and time < {hour * 3600}"),
        (0.10, f"{area} and time >= {hour * 3600} and time < {(hour + 2) * 3600}"),
        (0.10, f"status = 'broken' and latitude > {town[0] - 0.5:.1f}"),
        (0.07, area),
        (0.03, f"speed > {int(random.integers(70, 110))}"),
    )
    return conditions[int(random.choice(len(conditions), p=[share for share, _ in conditions]))][1]


def _area(town: tuple[float, float], random: np.random.Generator) -> str:
    """A box somewhere around a town, some kilometres wide."""
    (north, east), (tall, wide) = town + random.normal(0.0, 0.08, 2), random.uniform(0.04, 0.3, 2)
    return (
        f"latitude >= {north - tall / 2:.2f} and latitude < {north + tall / 2:.2f}"
        f" and longitude >= {east - wide / 2:.2f} and longitude < {east + wide / 2:.2f}"
    )


def _name(van: int) -> str:
    return f"van-{van:03d}"
