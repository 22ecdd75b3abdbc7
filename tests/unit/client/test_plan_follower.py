"""How a client hears of new plans where nobody can tell it."""

import asyncio
import json

from pleroma.client.api import Answer
from pleroma.client.session import plan_follower as following
from pleroma.client.session.event_source import EventSource
from pleroma.client.session.inbox import Inbox
from pleroma.client.session.plan_follower import PlanFollower
from pleroma.client.session.receiver import Receiver
from pleroma.client.session.subscribed_schemas import EventListener
from pleroma.content import Filter
from pleroma.errors import ControllerAway
from pleroma.index import IPV4, IPV6, GridIndex, IndexPlan
from support.client_parts import Wire, channel, listen, quote
from support.strategies import STOCK


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


async def until(true):
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.005)


async def followed(work):
    controller, adopted = Controller(), []
    plans = PlanFollower(controller, lambda new, _: adopted.append((new.epoch, new.addresses)))
    await plans.channel("stock", 0)
    task = asyncio.create_task(plans.follow(lambda: None))
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
