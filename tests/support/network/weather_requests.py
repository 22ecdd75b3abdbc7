"""What tests on real switches ask for: a schema, registrations, filters and events drawn at random."""

from random import Random

from pleroma.content import Category, Event, Filter, Integer, Real, Schema
from pleroma.content.filter_json import to_json
from pleroma.control import Command, CreatePrincipal, CreateSchema, Register
from pleroma.routing import HostId
from support.control_cases import DIGEST

SKIES = ("sun", "rain", "snow")
WEATHER = Schema(
    "weather", (Real("temperature", False, -20, 40), Integer("wind", False, 0, 63), Category("sky", True, SKIES))
)
ROOT = CreatePrincipal("root", "admin", DIGEST)
BEGINNING: tuple[Command, ...] = (CreateSchema(WEATHER), ROOT)


def advertise(host: str, text: str, schema: Schema = WEATHER) -> Register:
    return Register("advertisement", "root", HostId(host), schema.name, to_json(Filter.parse(schema, text)))


def subscribe(host: str, text: str, schema: Schema = WEATHER) -> Register:
    return Register("subscription", "root", HostId(host), schema.name, to_json(Filter.parse(schema, text)))


def random_filter(draw: Random, widest: float = 0.6) -> str:
    """Text of a box, and now and then of two."""
    parts = []
    for _ in range(draw.choice((1, 1, 1, 2))):
        low, wind = draw.uniform(-20, 35), draw.randrange(60)
        high = min(low + draw.uniform(1, 60 * widest), 40)
        conditions = [
            f"temperature >= {low:.1f} and temperature < {high:.1f}",
            f"wind between {wind} and {min(wind + draw.randrange(40), 63)}",
            f'sky = "{draw.choice(SKIES)}"',
        ]
        parts.append(" and ".join(draw.sample(conditions, draw.randint(1, 3))))
    return " or ".join(f"({part})" for part in parts)


def random_event(draw: Random) -> Event:
    sky = draw.choice((*SKIES, None))
    return WEATHER.event(temperature=draw.uniform(-20, 40), wind=draw.randrange(64), sky=sky)
