"""Calls with each event, and what readers of such a subscription get."""

import asyncio
import logging

import pytest

from pleroma.client.session import subscription as subscriptions
from pleroma.client.session.registration import ClientRegistration
from pleroma.client.session.subscription import Subscription
from pleroma.errors import ClientError
from pleroma.wire import EventPacket
from support.client_parts import quote, wanted
from support.waiting import until


async def ended(subscription):
    subscription.end()


async def nothing(*_):
    pass


def subscription(queue=10):
    registration = ClientRegistration("subscriptions", "stock", wanted("true"), id="s3")
    return Subscription(registration, ended, nothing, queue)


def deliver(to, *prices):
    for price in prices:
        to.listener.take(EventPacket(1, 5, 9, int(price), 0, quote(price)))


def run(work):
    asyncio.run(asyncio.wait_for(work(), 20))


@pytest.mark.parametrize("is_asynchronous", [False, True])
def test_a_function_is_called_with_each_event_and_its_faults_end_nothing(is_asynchronous, caplog):
    got = []

    def on_event(event):
        got.append(event["price"])
        if event["price"] == 2.0:
            raise ValueError("a fault of the program")

    async def later(event):
        await asyncio.sleep(0)
        on_event(event)

    async def work():
        called = subscription()
        deliver(called, 1.0)
        called.call(later if is_asynchronous else on_event)
        deliver(called, 2.0, 3.0)
        await until(lambda: len(got) == 3)
        deliver(called, 4.0)
        await called.close()
        assert got == [1.0, 2.0, 3.0, 4.0]  # what was received before it was closed
        assert called._calls.done()

    with caplog.at_level(logging.ERROR, "pleroma.client"):
        run(work)
    (said,) = caplog.records
    assert "a fault of the program" in caplog.text
    assert said.message.startswith("on_event of Subscription('stock', 'true', id='s3'")


def test_slow_calls_come_one_after_another_and_the_queue_drops_the_oldest():
    got, under_way = [], []

    async def work():
        goes_on = asyncio.Event()

        async def on_event(event):
            under_way.append(event["price"])
            assert len(under_way) == 1
            await goes_on.wait()
            got.append(under_way.pop())

        called = subscription(queue=2)
        called.call(on_event)
        deliver(called, 1.0)
        await until(lambda: under_way)
        deliver(called, 2.0, 3.0, 4.0)
        assert called.info.dropped == 1
        goes_on.set()
        await called.close()
        assert got == [1.0, 3.0, 4.0]

    run(work)


def test_whose_events_go_to_a_function_cannot_be_read():
    async def work():
        called = subscription()
        called.call(print)
        with pytest.raises(ClientError, match="go to on_event"):
            await called.receive()
        with pytest.raises(ClientError, match="go to on_event"):
            await anext(called)
        await called.close()

    run(work)


def test_a_call_may_close_its_subscription_and_one_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(subscriptions, "LAST_CALLS_SECONDS", 0.05)

    async def work():
        closing = subscription()

        async def close(_):
            await closing.close()

        closing.call(close)
        deliver(closing, 1.0)
        await until(lambda: closing.is_over and closing._calls.done())

        async def hang(_):
            await asyncio.Event().wait()

        hanging = subscription()
        hanging.call(hang)
        deliver(hanging, 1.0)
        await hanging.close()
        await until(hanging._calls.cancelled)

    run(work)


def test_a_failure_ends_the_calls_and_is_logged(caplog):
    async def work():
        called = subscription()
        called.call(lambda _: None)
        called.end(ClientError("it was withdrawn"))
        await until(called._calls.done)

    run(work)
    assert "has ended: it was withdrawn" in caplog.text
