"""Every program in examples/, run as its first lines say, against a real service."""

import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from pleroma.content import Schema
from support.service.process import ServiceProcess

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with ServiceProcess(tmp_path_factory.mktemp("service")) as started:
        stock = Schema.load(EXAMPLES / "stock.toml")
        started.ask("POST", "/v1/schemas", {"schema": stock.to_json()})
        yield started


@contextmanager
def example(service, name, *arguments):
    command = [sys.executable, EXAMPLES / name, "--url", service.url, "--token", service.token, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(process):
    said, complaints = process.communicate(timeout=30)
    assert process.returncode == 0, complaints
    assert complaints == ""
    return said


def test_every_example_is_run_here():
    tested = set(re.findall(r'"(\w+\.py)"', Path(__file__).read_text()))
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested


def test_publisher_and_subscriber(service):
    wanted = ("--filter", "price < 100 and exists market")
    with example(service, "subscriber.py", *wanted, "--count", 5) as subscriber:
        assert subscriber.stdout.readline().startswith("listening at h")
        with example(service, "publisher.py", "--below", 150, "--rate", 200, "--seconds", 20) as publisher:
            heard = ended(subscriber)
            publisher.send_signal(signal.SIGINT)
            publisher.wait(60)
    assert service.registered() == []  # an interrupt withdraws too
    *events, summary = heard.splitlines()
    assert len(events) == 5
    for each in events:
        assert float(re.search(r"price=([\d.e-]+)", each).group(1)) < 100
        assert "market=" in each
    assert summary.startswith("5 events; ")


def test_the_publisher_ends_by_itself(service):
    with example(service, "publisher.py", "--count", 7, "--rate", 1000) as publisher:
        assert ended(publisher).splitlines()[-1] == "7 events published"
    assert service.registered() == []


def test_the_subscriber_ends_when_its_time_is_up(service):
    begun = time.monotonic()
    with example(service, "subscriber.py", "--seconds", 0.2) as subscriber:
        assert "0 events" in ended(subscriber)
    assert time.monotonic() - begun < 15
    assert service.registered() == []


def test_sensor(service):
    with example(service, "sensor.py", "--count", 40) as sensor:
        *alarms, summary = ended(sensor).splitlines()
    assert all(re.fullmatch(r"frost: \{room='greenhouse', celsius=-[\d.e-]+\}", each) for each in alarms)
    assert summary == f"40 readings, {len(alarms)} alarms"
    assert service.registered() == []


def test_stock_ticker(service):
    with example(service, "stock_ticker.py", "--count", 100) as ticker:
        said = ended(ticker).splitlines()
    assert any(line.startswith("100 quotes published") for line in said)
    for name, condition in {"bargains": lambda p: p < 50, "outliers": lambda p: p > 900 or p < 20}.items():
        prices = [float(line.split()[2]) for line in said if line.split()[0] == name and "shares" in line]
        assert all(map(condition, prices))
        counted = next(line for line in said if line.split()[0] == name and "wanted:" in line)
        assert int(counted.split()[1]) == len(prices)
    assert service.registered() == []
