"""The controller goes away, in every manner: the client comes back by itself, and events flow again."""

import asyncio
import os
import shutil
import signal
import socket
import time

import pytest

import pleroma
from pleroma.client import blocking
from pleroma.client.session import event_source
from pleroma.client.session.registration_keeper import CLOSE_SECONDS
from pleroma.errors import ClientError, ControllerAway, RequestRefused
from pleroma.index import GridIndex
from support.service.process import ServiceProcess
from support.strategies import STOCK
from support.waiting import until, until_registered

LONG = os.environ.get("PLEROMA_LONG") == "1"
LIVES = 10 if LONG else 1
long = pytest.mark.skipif(not LONG, reason="takes seconds more: set PLEROMA_LONG=1")


def quote(price):
    return STOCK.event(price=price, volume=0, ticker="AAPL")


def run(work, seconds=60.0):
    async def limited():
        async with asyncio.timeout(seconds):
            await work

    asyncio.run(limited())


@pytest.fixture(scope="module")
def lasting(tmp_path_factory):
    with ServiceProcess(tmp_path_factory.mktemp("controller")) as started:
        started.ask("POST", "/v1/schemas", {"schema": STOCK.to_json()})
        yield started


@pytest.fixture
def service(lasting):
    """It runs and holds no registrations, whatever the test before did to it."""
    if not lasting.is_running:
        lasting.start()
    for each in lasting.registered():
        lasting.ask("DELETE", f"/v1/{'advertisements' if each.startswith('a') else 'subscriptions'}/{each}")
    return lasting


async def flows(publisher, subscription, price, seconds=15.0):
    """Publish until one arrives: how many it took."""
    end, tries = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        publisher.publish(quote(price))
        tries += 1
        try:
            async with asyncio.timeout(0.05):
                while (await subscription.receive()).event["price"] != price:
                    pass
            return tries
        except TimeoutError:
            pass
    raise AssertionError("nothing arrives")


def test_killed_and_restarted_on_the_same_folder_and_port(service, monkeypatch):
    monkeypatch.setattr(event_source, "RETURN_SECONDS", 4.0)  # the machine may be busy, and subscribers slow to return

    async def work():
        async with (
            pleroma.connect(service.url, service.token, "h1") as near,
            pleroma.connect(service.url, service.token, "h5") as far,
        ):
            publisher = await near.advertise("stock", "price < 900")
            subscription = await far.subscribe("stock", "price < 500")
            await flows(publisher, subscription, 0.0)
            ids = (publisher.id, subscription.id)
            for life in range(LIVES):
                service.kill()
                await until(lambda: not near.is_connected and not far.is_connected)
                while subscription.waiting:
                    await subscription.receive()
                numbers = publisher.publish_many(quote(float(n)) for n in range(20))
                assert publisher.waiting == 20
                await asyncio.to_thread(service.start)
                await near.connected()
                await far.connected()
                await publisher.drain()
                assert [(await subscription.receive()).sequence for _ in numbers] == numbers
                assert (publisher.waiting, publisher.info.unsent) == (0, 0)
                await flows(publisher, subscription, float(100 + life))
                # what stood still stands: nothing was registered twice
                assert (publisher.id, subscription.id) == ids
                assert sorted(service.registered()) == sorted(ids)
                assert (near.host, far.host) == ("h1", "h5")
            # from now on nothing is lost
            while subscription.waiting:
                await subscription.receive()
            publisher.publish_many(quote(200.0 + n) for n in range(200))
            assert [(await anext(subscription))["price"] for n in range(200)] == [200.0 + n for n in range(200)]
        assert service.registered() == []

    run(work(), 60.0 * LIVES)


@long
def test_a_restart_too_quick_to_be_seen_is_noticed(service):
    async def work():
        async with pleroma.connect(service.url, service.token, "h1") as client:
            publisher, subscription = await client.advertise("stock"), await client.subscribe("stock", "price < 10")
            async with pleroma.connect(service.url, service.token, "h2") as other:
                elsewhere = await other.subscribe("stock")
                service.kill()
                service.start()  # the event loop of the clients stood still meanwhile
                await flows(publisher, elsewhere, 5.0)
            await flows(publisher, subscription, 5.0)

    run(work())


def test_a_controller_that_lost_the_registrations_gets_them_again(service, tmp_path):
    service.stop()
    shutil.copytree(service.folder, tmp_path / "copy")
    service.start()

    async def work():
        async with (
            pleroma.connect(service.url, service.token, "h1") as near,
            pleroma.connect(service.url, service.token, "h5") as far,
        ):
            subscription = await far.subscribe("stock", "price < 500")
            publisher = await near.advertise("stock", "price < 900")
            publisher.publish_many(quote(100.0) for _ in range(50))
            for _ in range(50):
                await subscription.receive()
            service.kill()
            shutil.rmtree(service.folder)
            shutil.copytree(tmp_path / "copy", service.folder)
            await asyncio.to_thread(service.start)
            await flows(publisher, subscription, 7.0)
            await until_registered(service, lambda: [publisher.id, subscription.id])

    run(work())


@long
def test_a_plan_adopted_while_the_client_was_cut_off_is_found_on_return(service):
    async def work():
        async with (
            pleroma.connect(service.url, service.token, "h1") as near,
            pleroma.connect(service.url, service.token, "h5") as far,
        ):
            publisher, subscription = await near.advertise("stock"), await far.subscribe("stock", "price < 500")
            service.kill()
            service.start()
            index = GridIndex.regular(STOCK, 12, ["price"]).to_json()
            answer = await asyncio.to_thread(service.ask, "PUT", "/v1/schemas/stock/plan", {"index": index})
            epoch = answer["epoch"]
            await flows(publisher, subscription, 3.0)
            assert publisher.channel.epoch == epoch

    run(work())


def test_who_reads_a_subscription_that_was_withdrawn_is_told(service, monkeypatch):
    monkeypatch.setattr("pleroma.client.client.REPORT_SECONDS", 0.2)

    async def work():
        async with pleroma.connect(service.url, service.token, "h1") as client:
            publisher, subscription = await client.advertise("stock"), await client.subscribe("stock")
            old = subscription.id
            service.ask("DELETE", f"/v1/subscriptions/{old}")
            publisher.publish(quote(1.0))  # is received before the report about it is refused
            assert (await anext(subscription))["price"] == 1.0
            with pytest.raises(ClientError, match="withdrawn") as told:
                await anext(subscription)
            assert told.value.value == old
            assert service.registered() == [publisher.id]
            again = await client.subscribe("stock")
            await flows(publisher, again, 2.0)

    run(work())


def test_calls_wait_for_a_controller_that_is_away(service):
    async def work():
        async with pleroma.connect(service.url, service.token, "h1") as client:
            await client.schema("stock")
            service.kill()
            waiting = asyncio.create_task(client.subscribe("stock", "price < 5"))
            await asyncio.sleep(0.3)
            assert not waiting.done()
            await asyncio.to_thread(service.start)
            subscription = await waiting
            await until_registered(service, lambda: [subscription.id])
            publisher = await client.advertise("stock")
            await flows(publisher, subscription, 1.0)

    run(work())


def test_calls_give_up_when_patience_ends(service):
    async def work():
        async with pleroma.connect(service.url, service.token, "h1", patience=0.5) as client:
            service.kill()
            with pytest.raises(ControllerAway):
                await client.subscribe("stock")

    run(work())


def test_leaving_does_not_wait_for_a_controller_that_is_gone(service):
    async def work():
        async with pleroma.connect(service.url, service.token, "h1") as client:
            subscription = await client.subscribe("stock")
            await client.advertise("stock")
            service.kill()
            begun = time.monotonic()
        assert time.monotonic() - begun < CLOSE_SECONDS + 1
        assert [event async for event in subscription] == []

    run(work())


def test_who_may_not_come_back_is_told(service):
    token = service.principal("guest", role="both", read={"*": "true"}, publish={"*": "true"})

    async def work():
        async with pleroma.connect(service.url, token, "h1") as client:
            publisher, subscription = await client.advertise("stock"), await client.subscribe("stock")
            service.ask("DELETE", "/v1/principals/guest")
            service.kill()
            await asyncio.to_thread(service.start)
            with pytest.raises(RequestRefused) as refused:
                await subscription.receive()
            assert refused.value.status == 401
            with pytest.raises(RequestRefused):
                publisher.publish(quote(1.0))
            with pytest.raises(ClientError):
                await client.subscribe("stock")

    run(work())


@long
def test_the_blocking_facade_returns_too(service):
    with (
        blocking.connect(service.url, service.token, "h1") as near,
        blocking.connect(service.url, service.token) as far,
    ):
        publisher, subscription = near.advertise("stock"), far.subscribe("stock")
        service.kill()
        service.start()
        for _ in range(200):
            publisher.publish(quote(1.0))
            try:
                subscription.receive(timeout=0.1)
                break
            except TimeoutError:
                pass
        else:
            raise AssertionError("nothing arrives")


def test_a_port_that_refuses_is_told_from_one_that_is_slow(service):
    """A host's port that takes datagrams and never answers: the controller hangs."""

    async def work():
        async with pleroma.connect(service.url, service.token, "h1") as client:
            service.send_signal(signal.SIGSTOP)
            try:
                await asyncio.sleep(0.3)
                client._connection.attachment.link().doubt()
                await until(lambda: not client.is_connected, 5)
            finally:
                service.send_signal(signal.SIGCONT)
            await client.connected()

    run(work())


def test_the_socket_is_closed_in_the_end(service):
    async def work():
        async with pleroma.connect(service.url, service.token, "h1") as client:
            ours = client._connection.attachment.link()._socket.socket
        assert ours.fileno() == -1
        assert isinstance(ours, socket.socket)

    run(work())
