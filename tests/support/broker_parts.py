"""Real brokers: in the event loop of a test, or in a process of their own. Run as a program this is that process."""

import contextlib
import json
import random
import sys
from pathlib import Path

import pleroma
from pleroma.broker.upstream import BrokerAbove
from pleroma.content import Filter
from pleroma.control import CreatePrincipal, CreateSchema
from pleroma.service import BrokerSettings, Deployment, ServiceSettings, running, serve
from pleroma.service.http.tokens import digest
from pleroma.service.planes.broker_plane import BROKER_TOPOLOGY
from support.client_service import ServiceProcess
from support.strategies import STOCK

TICKERS = ("AAPL", "IBM", "GOOG", "MSFT", "A")
EVERYTHING = {"*": "true"}


def some_filter(chance: random.Random) -> Filter:
    """One that some events match; often one that lies inside another."""

    def term():
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


def some_event(chance: random.Random):
    return STOCK.event(
        price=chance.uniform(0, 1000),
        volume=chance.randrange(1024),
        ticker=chance.choice(TICKERS),
        market=chance.choice([None, "xetra", "lse", "nyse", "nasdaq"]),
    )


class Here:
    """A broker in this event loop."""

    def __init__(self, service):
        self.running = service
        self.controller = service.service.controller
        self.plane = service.service.network
        self.token = service.token_file.read_text().strip()
        self.udp = service.url.replace("http", "udp")

    @property
    def counters(self):
        return self.plane.broker.counters

    async def principal(self, name):
        """One that may do everything but administrate; the way for a broker to join this one."""
        token = f"plr_{name}"
        rights = {"publish": EVERYTHING, "read": EVERYTHING}
        await self.controller.submit(CreatePrincipal(name, "both", digest(token), **rights))
        return BrokerAbove(self.udp, token, name)

    def connect(self, scheme="udp"):
        return pleroma.connect(self.udp.replace("udp", scheme), self.token, principal="admin")


@contextlib.asynccontextmanager
async def here(folder, above=None, schemas=(), host="127.0.0.1", port=0, **settings):
    generous = ServiceSettings(**{"requests_per_s": 1e6} | settings)
    started = running(folder, BROKER_TOPOLOGY, Deployment(host, port, generous, plane=BrokerSettings(above)))
    async with started as service:
        broker = Here(service)
        for schema in schemas:
            await broker.controller.submit(CreateSchema(schema))
        yield broker


class BrokerProcess(ServiceProcess):
    """`kill` it as often as you like, `start` brings it back to the same folder and port.

    Give `upstream` as (url, token, principal) to chain it.
    """

    script = __file__

    def __init__(self, folder, upstream=None, **settings):
        super().__init__(folder, json.dumps(upstream), **settings)

    @property
    def udp(self):
        return f"udp://127.0.0.1:{self.port}"


if __name__ == "__main__":
    folder, upstream, port, settings = sys.argv[1:]
    above = json.loads(upstream)
    with contextlib.suppress(KeyboardInterrupt):
        serve(
            Path(folder),
            BROKER_TOPOLOGY,
            Deployment(
                port=int(port),
                settings=ServiceSettings(**json.loads(settings)),
                plane=BrokerSettings(BrokerAbove(*above) if above else None),
            ),
        )
