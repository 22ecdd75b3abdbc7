"""A client that knows several controllers, one of which is dead from the beginning, and another one dies."""

import asyncio
import shutil
import subprocess
import sys

import pytest

import pleroma
from pleroma.client import blocking
from pleroma.errors import ControllerAway
from pleroma.index import GridIndex
from support.network.world import free_port
from support.programs import environment
from support.service.process import ServiceProcess
from support.strategies import STOCK
from support.waiting import until


def quote(price):
    return STOCK.event(price=price, volume=0, ticker="AAPL")


def command(*words):
    return subprocess.run(
        [sys.executable, "-m", "pleroma.cli", *words], capture_output=True, text=True, check=False, env=environment()
    )


@pytest.fixture
def twins(tmp_path):
    """Two controllers that know the same schema and the same token; else they know nothing of each other."""
    folder = tmp_path / "first"
    with ServiceProcess(folder, "line:2") as first:
        first.ask("POST", "/v1/schemas", {"schema": STOCK.to_json()})
        first.stop()
        shutil.copytree(folder, tmp_path / "second")
        first.start()
        with ServiceProcess(tmp_path / "second", "line:2") as second:
            yield first, second


def nobody():
    """An address at which nobody listens."""
    return f"http://127.0.0.1:{free_port()}"


async def flows(publisher, subscription, price):
    async with asyncio.timeout(30):
        while True:
            publisher.publish(quote(price))
            try:
                async with asyncio.timeout(0.1):
                    while (await subscription.receive()).event["price"] != price:
                        pass
                return
            except TimeoutError:
                continue


def test_a_client_goes_on_at_the_next_controller_with_all_that_it_registered(twins):
    first, second = twins

    async def work():
        urls = ",".join((nobody(), first.url, second.url))
        async with pleroma.connect(urls, first.token) as client:
            publisher = await client.advertise("stock", "price < 900")
            subscription = await client.subscribe("stock", "price < 500")
            await flows(publisher, subscription, 1.0)
            assert (len(first.registered()), second.registered()) == (2, [])
            await asyncio.to_thread(first.kill)
            await until(lambda: len(second.registered()) == 2, 30)
            await client.connected()
            await flows(publisher, subscription, 2.0)
            another = await client.subscribe("stock", "price < 100")
            assert another.id in second.registered()
            index = GridIndex.regular(STOCK, 12, ["price"]).to_json()
            answer = await asyncio.to_thread(second.ask, "PUT", "/v1/schemas/stock/plan", {"index": index})
            await until(lambda: publisher.channel.epoch == answer["epoch"], 30)
        assert second.registered() == []

    asyncio.run(asyncio.wait_for(work(), 120))


def test_the_blocking_client_and_commands_do_likewise(twins, tmp_path, monkeypatch):
    first, second = twins
    first.kill()
    urls = ",".join((first.url, second.url))
    with blocking.connect(urls, second.token) as client:
        assert [each.name for each in client.schemas()] == ["stock"]
    listed = command("schema", "list", "--url", urls, "--token", second.token)
    assert (listed.returncode, "stock" in listed.stdout) == (0, True), listed
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    token_file = str(second.folder / "admin.token")
    assert command("context", "add", "both", "--url", urls, "--token-file", token_file).returncode == 0
    assert "stock" in command("schema", "list").stdout
    monkeypatch.setenv("PLEROMA_URL", urls)
    monkeypatch.setenv("PLEROMA_TOKEN", second.token)
    assert command("status").returncode == 0


def test_if_no_controller_is_there_the_error_names_all_of_them():
    one, other = nobody(), nobody()

    async def work():
        with pytest.raises(ControllerAway) as error:
            async with pleroma.connect(f"{one},{other}", "t", patience=0.0):
                pass
        assert one in str(error.value)
        assert other in str(error.value)

    asyncio.run(work())
    failed = command("status", "--url", f"{one},{other}", "--token", "t")
    assert failed.returncode != 0
    assert one in failed.stderr
    assert other in failed.stderr
    assert "--url" in failed.stderr
