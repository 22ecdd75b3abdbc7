"""How a client hears of new plans where nobody can tell it."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from pleroma.client.api import Answer
from pleroma.client.session import plan_follower as following
from pleroma.client.session.event_source import EventSource
from pleroma.client.session.inbox import Inbox
from pleroma.client.session.plan_follower import PlanFollower
from pleroma.client.session.receiver import Receiver
from pleroma.client.session.subscribed_schemas import EventListener
from pleroma.content import Filter
from pleroma.errors import ControllerAway, RequestRefused
from pleroma.index import IPV4, IPV6, GridIndex, IndexPlan
from support.client_parts import Wire, channel, listen, quote
from support.strategies import STOCK


def refused(status):
    return RequestRefused("no", status=status, code="no")


class Controller:
    """An API without streams."""

    has_streams = False

    def __init__(self):
        self.epoch = 1
        self.asked = 0
        self.is_away = False

    async def ask(self, method, path, **_):
        assert (method, path) == ("GET", "/v1/schemas/stock/plan")
        self.asked += 1
        if self.is_away:
            raise ControllerAway("it is away")
        plan = json.loads(IndexPlan(self.epoch, GridIndex.regular(STOCK, 16)).dumps())
        body = {"epoch": self.epoch, "number": 5, "prefix": "000101", "members": 8, "plan": plan}
        return Answer(200, body, f'"{self.epoch}"')


class StreamingController(Controller):
    """An API with a stream of items; None among them is its end, an error is raised to who reads it."""

    has_streams = True

    def __init__(self):
        super().__init__()
        self.items = asyncio.Queue()
        self.streams = 0

    @asynccontextmanager
    async def stream(self, path):
        assert path == "/v1/stream?types=plan"
        self.streams += 1
        yield self._items()

    async def _items(self):
        while (item := await self.items.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item


async def until(true):
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.005)


async def followed(work, api=Controller, doubt=lambda: None):
    controller, adopted = api(), []
    plans = PlanFollower(controller, lambda new, _: adopted.append((new.epoch, new.addresses)))
    await plans.channel("stock", 0)
    task = asyncio.create_task(plans.follow(doubt))
    try:
        await work(controller, plans, adopted)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_without_a_stream_plans_are_asked_for_now_and_then(monkeypatch):
    monkeypatch.setattr(following, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(following, "MIN_POLL_SECONDS", 0.0)

    async def work(controller, _, adopted):
        await until(lambda: controller.asked > 3)
        controller.is_away = True
        before = controller.asked
        await until(lambda: controller.asked > before + 3)
        controller.is_away, controller.epoch = False, 2
        await until(lambda: len(adopted) == 2)
        assert adopted == [(1, IPV6), (2, IPV6)]

    asyncio.run(followed(work))


def test_whoever_hears_of_a_later_plan_asks_at_once(monkeypatch):
    monkeypatch.setattr(following, "POLL_SECONDS", 3600.0)

    async def work(controller, plans, adopted):
        await asyncio.sleep(0.05)
        assert controller.asked == 1
        controller.epoch = 2
        plans.hurry("another")
        plans.hurry("stock")
        await until(lambda: len(adopted) == 2)
        assert controller.asked == 2

    asyncio.run(followed(work))


def test_many_who_hear_of_a_later_plan_cause_few_readings(monkeypatch):
    monkeypatch.setattr(following, "POLL_SECONDS", 3600.0)
    monkeypatch.setattr(following, "MIN_POLL_SECONDS", 0.05)

    async def work(controller, plans, _adopted):
        begin = asyncio.get_running_loop().time()
        while controller.asked < 5:
            plans.hurry("stock")
            await asyncio.sleep(0)
        assert asyncio.get_running_loop().time() - begin >= 3 * 0.05
        asked = controller.asked
        await asyncio.sleep(0.3)
        assert controller.asked <= asked + 1, "nobody is in a hurry any more"

    asyncio.run(followed(work))


def test_an_answer_that_a_plan_is_unchanged_keeps_the_channel():
    async def work(controller, plans, adopted):
        before = await plans.channel("stock", 0)

        async def unchanged(*_, etag, **__):
            assert etag == before.etag
            return Answer(304, None, etag)

        controller.ask = unchanged
        assert await plans.read("stock") is before
        assert len(adopted) == 1

    asyncio.run(followed(work, StreamingController))


def test_a_stream_that_tells_of_a_plan_has_it_read():
    async def work(controller, _plans, adopted):
        await until(lambda: controller.asked == 2)  # when the stream begins, for what came before it
        for kind, item in (("plan", {"schema": "stock"}), ("plan", {"schema": "another"}), ("lost", {"items": 3})):
            controller.epoch += 1
            controller.items.put_nowait((kind, item))
            await until(lambda: adopted[-1][0] == controller.epoch)
        controller.epoch += 1
        controller.items.put_nowait(("alive", {}))
        await asyncio.sleep(0.02)
        assert adopted[-1][0] == controller.epoch - 1
        assert (controller.asked, controller.streams) == (5, 1)

    asyncio.run(followed(work, StreamingController))


@pytest.mark.parametrize(
    ("end", "is_doubted"), [(None, True), (ControllerAway("away"), True), (refused(429), False)], ids=str
)
def test_after_the_end_of_a_stream_plans_are_read_and_another_begins(monkeypatch, end, is_doubted):
    monkeypatch.setattr(following, "POLL_SECONDS", 0.11)
    doubts = []

    async def work(controller, _plans, adopted):
        await until(lambda: controller.asked == 2)
        begin, controller.epoch = asyncio.get_running_loop().time(), 2
        controller.items.put_nowait(end)
        await until(lambda: adopted[-1][0] == 2)
        assert asyncio.get_running_loop().time() - begin >= (0.04 if is_doubted else 0.1)
        await until(lambda: controller.streams == 2)
        assert bool(doubts) == is_doubted

    asyncio.run(followed(work, StreamingController, lambda: doubts.append(1)))


def test_where_every_stream_is_refused_plans_are_read_nevertheless(monkeypatch):
    monkeypatch.setattr(following, "POLL_SECONDS", 0.11)

    class Refusing(StreamingController):
        def stream(self, _path):
            self.streams += 1
            raise refused(429)

    async def work(controller, _plans, adopted):
        await until(lambda: controller.streams == 2)
        controller.epoch = 2
        await until(lambda: adopted[-1][0] == 2)

    asyncio.run(followed(work, Refusing))


def test_a_schema_that_is_gone_does_not_keep_others_from_being_read():
    async def work(controller, plans, _adopted):
        ask = controller.ask
        for status in (404, 403):

            async def gone(*_, status=status, **__):
                controller.ask = ask
                raise refused(status)

            controller.ask, before = gone, controller.asked
            if status == 404:
                await plans.read_again(["gone", "stock"])
                assert controller.asked == before + 1
            else:
                with pytest.raises(RequestRefused):
                    await plans.read_again(["forbidden", "stock"])

    asyncio.run(followed(work, StreamingController))


@pytest.mark.parametrize(("status", "is_known"), [(404, False), (503, True)])
def test_a_schema_that_was_removed_is_forgotten_and_one_that_cannot_be_asked_for_is_not(status, is_known):
    """Else the next schema of that name would be taken for another plan of the one before."""

    class Refusing(Controller):
        status = None

        async def ask(self, method, path, **more):
            if self.status is not None:
                raise refused(self.status)
            return await super().ask(method, path, **more)

    async def main():
        controller, adopted = Refusing(), []
        plans = PlanFollower(controller, lambda new, before: adopted.append((new.epoch, before and before.epoch)))
        await plans.read("stock")
        controller.status = status
        with pytest.raises(RequestRefused):
            await plans.read("stock")
        controller.status, controller.epoch = None, 2
        await plans.read("stock")
        assert adopted == [(1, None), (2, 1 if is_known else None)]

    asyncio.run(main())


def test_another_range_of_addresses_makes_other_channels():
    async def work(_controller, plans, adopted):
        plans.use(IPV6)
        plans.use(IPV4)
        assert adopted == [(1, IPV6), (1, IPV4)]
        assert (await plans.channel("stock", 0)).addresses == IPV4

    asyncio.run(followed(work))


def test_a_packet_of_a_later_plan_says_that_there_is_one():
    wire, heard = Wire(), []
    receiver = Receiver(heard.append)
    everything = EventListener(Filter.everything(STOCK), Inbox())
    listen(receiver, channel(epoch=2), everything)
    for epoch in (1, 2, 3):
        EventSource(Filter.everything(STOCK), channel(epoch=epoch), epoch, wire).publish(quote(5.0))
    for packet in wire.packets:
        receiver.receive(packet)
    assert heard == ["stock"]
    assert everything.inbox.info.delivered == 3
