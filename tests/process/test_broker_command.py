"""`pleroma broker` as a user runs it."""

import asyncio
import json
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import pleroma
from pleroma.cli.command_tree import app
from pleroma.client import blocking
from pleroma.errors import PleromaError
from support.strategies import STOCK


def test_a_broker_says_where_it_is_serves_and_stops(tmp_path):
    command = [sys.executable, "-m", "pleroma.cli", "broker", "--listen", "127.0.0.1:0", "--folder", tmp_path, "--json"]

    async def exchange(told, token):
        async with asyncio.timeout(60), pleroma.connect(told["udp"], token, principal="admin") as client:
            await client.create_schema(STOCK)
            subscription, publisher = await client.subscribe("stock"), await client.advertise("stock")
            publisher.publish({"ticker": "IBM", "price": 9, "volume": 1})
            assert (await subscription.receive()).event["ticker"] == "IBM"

    def from_threads(told, token):
        with (
            blocking.connect(told["udp"], token, principal="admin") as one,
            blocking.connect(told["udp"], token, principal="admin") as other,
        ):
            subscription = one.subscribe("stock", "price < 10")
            other.advertise("stock").publish({"ticker": "IBM", "price": 5, "volume": 1})
            assert subscription.receive(timeout=20).event["price"] == 5

    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as process:
        try:
            told = json.loads(process.stdout.readline())
            assert told["udp"] == told["url"].replace("http", "udp")
            token = (tmp_path / "admin.token").read_text().strip()
            asyncio.run(exchange(told, token))
            from_threads(told, token)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--listen", "8470"], "listen"),
        (["--listen", "127.0.0.1:x"], "listen"),
        (["--upstream", "udp://host"], "url"),
        (["--upstream", "udp://host:1", "--token", "plr_x"], "--principal"),
        (["--upstream", "udp://host:1", "--principal", "below"], "--token"),
        (["--token", "plr_x"], "--upstream"),
        (["--principal", "below"], "--upstream"),
    ],
)
def test_mistakes_name_the_option(tmp_path, arguments, field):
    done = CliRunner().invoke(app, ["broker", "--folder", str(tmp_path), *arguments])
    assert isinstance(done.exception, PleromaError)
    assert done.exception.field == field
    assert list(tmp_path.iterdir()) == []
