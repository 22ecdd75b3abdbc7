"""Real brokers in the event loop of a test, and filters and events for them. See `ServiceProcess` for others."""

import contextlib
import random
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pleroma
from pleroma.broker.upstream import BrokerAbove
from pleroma.client import Client
from pleroma.content import Event, Filter, Schema
from pleroma.control import CreatePrincipal, CreateSchema
from pleroma.service import BrokerSettings, Deployment, Running, ServiceSettings, running
from pleroma.service.http.tokens import digest
from pleroma.service.planes.broker_plane import BROKER_TOPOLOGY, BrokerPlane
from support.strategies import STOCK

TICKERS = ("AAPL", "IBM", "GOOG", "MSFT", "A")
EVERYTHING = {"*": "true"}


def some_filter(chance: random.Random) -> Filter:
    """One that some events match; often one that lies inside another."""

    def term() -> str:
        return chance.choice(
            [
                f"price < {chance.randrange(100, 1000, 100)}",
                f"price between {(low := chance.randrange(900))} and {low + chance.randrange(1, 100)}",
                f"volume >= {chance.randrange(1000)}",
                f"ticker == '{chance.choice(TICKERS)}'",
                f"ticker startswith '{chance.choice('AIG')}'",
                "exists market",
                "true",
            ]
        )

    text = " and ".join(term() for _ in range(chance.randint(1, 2)))
    made = Filter.parse(STOCK, f"({text}) or ({term()})" if chance.random() < 0.2 else text)
    return made or some_filter(chance)


def some_event(chance: random.Random) -> Event:
    return STOCK.event(
        price=chance.uniform(0, 1000),
        volume=chance.randrange(1024),
        ticker=chance.choice(TICKERS),
        market=chance.choice([None, "xetra", "lse", "nyse", "nasdaq"]),
    )


class Here:
    """A broker in this event loop."""

    def __init__(self, service: Running) -> None:
        self.running = service
        self.controller = service.service.controller
        assert isinstance(service.service.plane, BrokerPlane)
        self.plane = service.service.plane
        assert service.token_file is not None
        self.token = service.token_file.read_text().strip()
        self.udp = service.url.replace("http", "udp")

    @property
    def counters(self) -> Any:
        return self.plane.broker.counters

    async def principal(self, name: str) -> BrokerAbove:
        """One that may do everything but administrate; the way for a broker to join this one."""
        token = f"plr_{name}"
        await self.controller.submit(CreatePrincipal(name, "both", digest(token), publish=EVERYTHING, read=EVERYTHING))
        return BrokerAbove(self.udp, token, name)

    def connect(self, scheme: str = "udp") -> Client:
        return pleroma.connect(self.udp.replace("udp", scheme), self.token, principal="admin")


@contextlib.asynccontextmanager
async def here(
    folder: Path,
    above: BrokerAbove | None = None,
    schemas: Iterable[Schema] = (),
    host: str = "127.0.0.1",
    port: int = 0,
    **settings: Any,
) -> AsyncIterator[Here]:
    generous = ServiceSettings(**{"requests_per_s": 1e6} | settings)
    started = running(folder, BROKER_TOPOLOGY, Deployment(host, port, generous, plane=BrokerSettings(above)))
    async with started as service:
        broker = Here(service)
        for schema in schemas:
            await broker.controller.submit(CreateSchema(schema))
        yield broker
