"""The client and a whole service in one event loop: updates without a gap, calls, buffers, wrong arguments."""

import asyncio
import logging
import random
import time
from contextlib import asynccontextmanager

import pytest

import pleroma
from pleroma.client import blocking
from pleroma.client.session import event_source
from pleroma.content import Filter
from pleroma.control import CreatePrincipal, CreateSchema
from pleroma.errors import BufferFull, ClientClosed, ClientError, ContentError, RequestRefused
from pleroma.routing import build
from pleroma.service import BrokerSettings, Deployment, ServiceSettings, running
from pleroma.service.http.tokens import digest
from pleroma.service.planes.broker_plane import BROKER_TOPOLOGY
from support.strategies import STOCK
from support.waiting import run, until

TOKEN = "plr_the-token-of-the-tests"  # noqa: S105
SETTINGS = ServiceSettings(requests_per_s=1e6, attachment_seconds=3.0)
MARK = 1023
"""The volume of events that every filter here wants."""


def quote(price, volume=0):
    return STOCK.event(price=price, volume=volume, ticker="X")


@asynccontextmanager
async def service(folder, port=0, topology=None, **more):
    deployment = Deployment(port=port, settings=SETTINGS, **more)
    async with running(folder, topology or build("line:3"), deployment) as started:
        if STOCK.name not in started.service.state.schemas:
            await started.service.controller.submit(CreateSchema(STOCK))
            everything = {"stock": f"price < 900 or volume = {MARK}"}
            boss = CreatePrincipal("boss", "both", digest(TOKEN), everything, everything)
            await started.service.controller.submit(boss)
        yield started


def connect(started, host):
    return pleroma.connect(started.url, TOKEN, host)


class Traffic:
    """Publishes events of random prices without an end, and remembers who wanted each when it was published."""

    def __init__(self, publisher, subscription, chance):
        self.publisher, self.subscription, self.chance = publisher, subscription, chance
        self.in_force = (subscription.filter,)
        self.must, self.may, self.got = set(), set(), []

    def publish(self):
        event = quote(self.chance.uniform(0, 899), self.chance.randrange(1000))
        number = self.publisher.publish(event)
        wanting = [each.matches(event) for each in self.in_force]
        if all(wanting):
            self.must.add(number)
        elif any(wanting):
            self.may.add(number)

    async def marked(self):
        """Publish an event that every filter wants, and take all that comes until it is there."""
        number = self.publisher.publish(quote(1.0, MARK))
        self.must.add(number)
        while not self.got or self.got[-1] != number:
            self.got.append((await self.subscription.receive()).sequence)

    async def update(self, wanted):
        """Update the subscription, with events published all the time."""
        await self.marked()
        self.in_force = (self.subscription.filter, wanted)
        updating = asyncio.create_task(self.subscription.update(wanted))
        while not updating.done():
            self.publish()
            await asyncio.sleep(0)
        await updating
        self.in_force = (wanted,)
        for _ in range(20):
            self.publish()
        await self.marked()


EMBEDDED = ({}, "h1", "h3")
BROKER = ({"topology": BROKER_TOPOLOGY, "plane": BrokerSettings()}, "any", "any")


@pytest.mark.parametrize(("network", "here", "there"), [EMBEDDED, BROKER], ids=["embedded", "broker"])
def test_no_wanted_event_is_missed_or_comes_twice_while_filters_change(tmp_path, network, here, there):
    chance = random.Random(1)

    def wanted():
        low = chance.uniform(0, 490)
        return Filter.parse(STOCK, f"volume = {MARK} or price between {low} and {low + chance.uniform(1, 400)}")

    async def main():
        async with (
            service(tmp_path, **network) as started,
            connect(started, here) as near,
            connect(started, there) as far,
        ):
            publisher = await near.advertise("stock", f"price < 900 or volume = {MARK}")
            subscription = await far.subscribe("stock", wanted(), queue=100_000)
            traffic = Traffic(publisher, subscription, chance)
            ids = {subscription.id}
            for _ in range(12):
                await traffic.update(wanted())
                ids.add(subscription.id)
            assert len(ids) == 13
            registrations = started.service.state.registrations
            assert {each for each in registrations if each.startswith("s")} == {subscription.id}
            assert str(registrations[subscription.id].filter) == str(subscription.filter)
        assert len(traffic.got) == len(set(traffic.got)), "an event came twice"
        assert traffic.must - set(traffic.got) == set(), "a wanted event was missed"
        assert set(traffic.got) <= traffic.must | traffic.may
        assert publisher.info.published > 300

    run(main)


@pytest.mark.parametrize(("network", "here", "there"), [EMBEDDED, BROKER], ids=["embedded", "broker"])
def test_who_comes_late_gets_what_is_published_from_then_on_in_its_order(tmp_path, network, here, there):
    async def main():
        async with (
            service(tmp_path, **network) as started,
            connect(started, here) as near,
            connect(started, there) as far,
        ):
            publisher = await near.advertise("stock", "price < 900")
            subscriptions = []
            for stretch in range(3):  # before the first of them nobody wants anything
                publisher.publish_many(quote(float(100 * stretch + n)) for n in range(100))
                await until(lambda: all(each.waiting == 100 * n for n, each in enumerate(reversed(subscriptions), 1)))
                subscriptions.append(await far.subscribe("stock", "price < 900"))
            publisher.publish_many(quote(float(300 + n)) for n in range(100))
            for number, each in enumerate(subscriptions, 1):
                got = [(await each.receive()).sequence for _ in range(400 - 100 * number)]
                assert got == list(range(100 * number + 1, 401))
                assert (each.waiting, each.info.delivered, each.info.missed) == (0, 400 - 100 * number, 0)

    run(main)


def test_a_filter_that_is_refused_leaves_the_old_one(tmp_path):
    async def main():
        async with service(tmp_path) as started, connect(started, "h1") as near, connect(started, "h3") as far:
            publisher = await near.advertise("stock", "price < 900")
            subscription = await far.subscribe("stock", "price < 10")
            before = subscription.id
            with pytest.raises(RequestRefused) as refused:
                await subscription.update("price > 950")
            assert refused.value.status == 403
            with pytest.raises(ContentError, match=r"^filter: is a text or a Filter, not 5$"):
                await subscription.update(5)
            await subscription.update("price < 10.0")  # the same in other words
            assert (subscription.id, str(subscription.filter)) == (before, "price < 10")
            publisher.publish_many([quote(500.0), quote(5.0)])
            assert (await subscription.receive()).event["price"] == 5.0
            await subscription.close()
            with pytest.raises(ClientClosed):
                await subscription.update("price < 20")

    run(main)


def test_events_published_while_the_controller_is_away_arrive_in_order_when_it_is_back(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(event_source, "RETURN_SECONDS", 1e9)  # until `far` is back, here

    async def main():
        async with service(tmp_path) as started:
            url, port = started.url, int(started.url.rpartition(":")[2])
            far = await pleroma.connect(url, TOKEN, "h3").__aenter__()
            near = await pleroma.connect(url, TOKEN, "h1").__aenter__()
            publisher = await near.advertise("stock", "price < 900", buffer=50)
            subscription = await far.subscribe("stock", "true and price < 900")
            everything = await far.subscribe("stock", f"price < 900 or volume = {MARK}")
            publisher.publish(quote(0.0))
            assert (await subscription.receive()).sequence == 1
        await until(lambda: not near.is_connected and not far.is_connected)
        numbers = publisher.publish_many(quote(float(n)) for n in range(1, 51))
        assert publisher.waiting == 50
        with pytest.raises(BufferFull) as full:
            publisher.publish(quote(60.0))
        assert full.value.events == 50
        assert publisher.waiting == 50
        async with service(tmp_path, port):
            await far.connected()
            await until(lambda: publisher._resumes)  # `near` is registered again
            publisher._resumes = 0.0
            await publisher.drain()
            assert publisher.publish(quote(51.0)) == 52
            got = [(await subscription.receive()).sequence for _ in range(51)]
            assert got == [*numbers, 52]
            assert (publisher.info.published, publisher.info.unsent, publisher.waiting) == (52, 0, 0)
            assert near.info["unsent"] == 0
            assert everything.info.missed == 0
            await near.close()
            await far.close()
        assert [each.message for each in caplog.records if "wait" in each.message] == [
            "the network takes no events: they wait",
            "no event waits any more",
        ]

    with caplog.at_level(logging.WARNING, "pleroma.client"):
        run(main)


def test_what_cannot_be_sent_before_the_end_is_counted_and_said(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("pleroma.client.session.registration_keeper.CLOSE_SECONDS", 0.2)

    async def main():
        async with service(tmp_path) as started:
            client = await pleroma.connect(started.url, TOKEN, "h1", patience=0.2).__aenter__()
            publisher = await client.advertise("stock", "price < 900", when_full="drop_oldest", buffer=2)
        await until(lambda: not client.is_connected)
        publisher.publish_many([quote(1.0)] * 3)
        await client.close()
        assert (publisher.info.unsent, client.info["unsent"]) == (3, 3)
        with pytest.raises(ClientClosed):
            publisher.publish(quote(1.0))
        assert any("2 events of" in each.message and "not sent" in each.message for each in caplog.records)

    run(main)


WRONG = [
    (lambda c: c.subscribe("stock", 5), "filter: is a text or a Filter, not 5"),
    (lambda c: c.subscribe("stock", None), "filter: is a text or a Filter, not None"),
    (lambda c: c.advertise("stock", ["price < 5"]), "filter: is a text or a Filter, not ['price < 5']"),
    (lambda c: c.subscribe(5), "schema: is the name of a schema, not 5"),
    (lambda c: c.advertise(None), "schema: is the name of a schema, not None"),
    (lambda c: c.schema(b"stock"), "schema: is the name of a schema, not b'stock'"),
    (lambda c: c.create_schema("stock"), "schema: is a Schema, not 'stock'"),
    (lambda c: c.subscribe("stock", on_event=5), "on_event: is a function of an event, not 5"),
    (lambda c: c.advertise("stock", buffer="5"), "buffer: is a whole number from 1, not '5'"),
    (lambda c: c.advertise("stock", buffer_bytes=1), "buffer_bytes: is a whole number from 65,536, not 1"),
    (lambda c: c.advertise("stock", when_full="wait"), "when_full: is one of raise, drop_oldest, not 'wait'"),
]


@pytest.mark.parametrize("connecting", [pleroma.connect, blocking.connect])
def test_wrong_arguments_of_connect_are_one_line(connecting):
    for arguments, said in (
        ({"token": b"plr_secret"}, "token: is a text, not bytes"),
        ({"host": 5}, "host: is a text, not int"),
        ({"principal": 5}, "principal: is a text, not int"),
        ({"patience": "10"}, "patience: is a number of seconds from 0, not '10'"),
        ({"patience": float("nan")}, "patience: is a number of seconds from 0, not nan"),
        ({"patience": -1}, "patience: is a number of seconds from 0, not -1"),
    ):
        with pytest.raises(ContentError) as refused:
            connecting("http://127.0.0.1:1", **arguments)
        assert str(refused.value) == said


def test_wrong_arguments_are_one_line_and_names_are_shown(tmp_path):
    async def main():
        async with service(tmp_path) as started:
            async with connect(started, "h1") as client:
                for call, said in WRONG:
                    with pytest.raises(ContentError) as refused:
                        await call(client)
                    assert str(refused.value) == said
                publisher = await client.advertise("stock", "price < 5")
                subscription = await client.subscribe("stock", "price < 5")
                assert repr(client) == f"Client({started.url!r}, host='h1', connected)"
                assert (
                    repr(publisher) == f"Publisher('stock', 'price < 5', id={publisher.id!r}, published=0, waiting=0)"
                )
                assert repr(subscription) == f"Subscription('stock', 'price < 5', id={subscription.id!r}, waiting=0)"
            assert repr(client) == f"Client({started.url!r}, host=None, not connected)"
            await asyncio.to_thread(blocking_calls, started.url)

    run(main)


def blocking_calls(url):
    """The same without an event loop: arguments, updates, calls in a thread of their own, draining."""
    called, other = [], []

    def on_event(event):
        called.append(event["price"])
        if event["price"] == 2.0:
            raise ValueError("a fault in the callback")
        if event["price"] == 3.0:
            subscription.update("price < 10")  # a call that waits, from the callback

    async def asynchronous(event):
        other.append(event["price"])

    with blocking.connect(url, TOKEN, "h1") as client:
        for call, said in WRONG:
            with pytest.raises(ContentError) as refused:
                call(client)
            assert str(refused.value) == said
        publisher = client.advertise("stock", "price < 900")
        subscription = client.subscribe("stock", "price < 5", on_event=on_event)
        client.subscribe("stock", "price < 5", on_event=asynchronous)
        third = client.subscribe("stock", "price < 5")
        with pytest.raises(ContentError, match=r"^timeout: is a number of seconds from 0, not 'x'$"):
            third.receive(timeout="x")
        with pytest.raises(ClientError, match="on_event"):
            subscription.receive(timeout=1)
        publisher.publish_many(quote(float(n)) for n in range(1, 5))
        publisher.drain(timeout=5)
        while str(subscription._inner.filter) != "price < 10" or called[-1:] != [4.0]:
            time.sleep(0.01)
        publisher.publish(quote(7.0))
        assert (publisher.waiting, repr(third)) == (0, repr(third._inner))
    assert called == [1.0, 2.0, 3.0, 4.0, 7.0]
    assert other == [1.0, 2.0, 3.0, 4.0]
    assert subscription.is_over
