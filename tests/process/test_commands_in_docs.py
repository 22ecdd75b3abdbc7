"""The commands of the docs, run against a controller, in a folder that has what they name."""

import json
import os
import shlex
import threading
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from pleroma.cli.command_tree import app
from pleroma.client import blocking
from pleroma.content import Schema
from pleroma.routing import build
from pleroma.routing.topology_files import to_json
from pleroma.workloads import EXPRESSIVE, StockModel, generate, generate_stock
from support.docs_commands import LISTED, ROOT
from support.service.process import ServiceProcess

ELSEWHERE = {
    "agent": "tests/network/test_host_agent.py",
    "audit": "tests/spark/test_audit.py",
    "backup": "tests/unit/control/test_state_backup.py",
    "broker": "tests/process/test_broker_command.py",
    "check /var/lib/pleroma --repair": "tests/attack/test_check_command.py",
    "check restored": "tests/attack/test_check_command.py",
    "context": "tests/process/test_live_commands.py",
    "demo": "tests/spark/test_demo.py",
    'explain "category': "tests/unit/cli/test_workloads_page.py",
    "experiment fig": "tests/process/test_commands.py",
    "experiment frontier": "tests/experiments/test_frontier.py",
    "group": "tests/process/test_live_commands.py",
    "lab": "tests/network/test_lab_commands.py",
    "pipeline": "tests/spark/test_command.py",
    "principal": "tests/process/test_live_commands.py",
    "replay": "tests/process/test_live_commands.py",
    "restore": "tests/unit/control/test_state_backup.py",
    "schema rm": "tests/process/test_live_commands.py",
    "simulate data/orders": "tests/unit/cli/test_workloads_page.py",
    "status --context": "tests/process/test_live_commands.py",
    "status --url https": "tests/service/test_https.py",
    "tune /var/lib": "tests/unit/cli/test_tune_lake.py",
    "tune data/many": "tests/unit/cli/test_workloads_page.py",
    "tune data/orders": "tests/unit/cli/test_workloads_page.py",
    "workload import": "tests/unit/cli/test_workloads_page.py",
    "workload show data/orders": "tests/unit/cli/test_workloads_page.py",
    "up": "tests/process/test_service_process.py",
}
"""Commands that take root, Spark, a lake or a process of their own, by how they begin: the tests that run them."""
SLOW = ("simulate", "tune", "experiment thesis", "plan apply", "plan rollback", "workload stock")
"""What takes seconds is run where PLEROMA_LONG is set."""
QUOTE = {"ticker": "IBM", "price": 120.5, "volume": 900}
LONG = os.environ.get("PLEROMA_LONG") == "1"


LAST = ("tune data/zipf", "tune data/stock", "simulate")
"""In this order, since `tune` writes the plan that `simulate` reads."""


def place(command):
    return next((number for number, start in enumerate(LAST, 1) if command.startswith(start)), 0)


RUN = sorted((command for command in LISTED if not command.startswith(tuple(ELSEWHERE))), key=place)


@pytest.fixture(scope="module")
def controller(tmp_path_factory):
    """A controller with the schema of the examples, and a program that publishes the same quote all the time."""
    with ServiceProcess(tmp_path_factory.mktemp("service"), "fat-tree:4") as service:
        stock = Schema.load(ROOT / "examples" / "stock.toml")
        service.ask("POST", "/v1/schemas", {"schema": stock.to_json()})
        ended = threading.Event()
        with blocking.connect(service.url, service.token) as client:
            publisher = client.advertise("stock")

            def publish():
                while not ended.wait(0.05):
                    publisher.publish(QUOTE)

            thread = threading.Thread(target=publish, name="publisher")
            thread.start()
            try:
                yield service
            finally:
                ended.set()
                thread.join()


@pytest.fixture(scope="module")
def folder(controller, tmp_path_factory):
    """What the commands name: examples, workloads, a plan, a table, a network, the folder of a controller."""
    made = tmp_path_factory.mktemp("folder")
    (made / "examples").symlink_to(ROOT / "examples")
    generate(replace(EXPRESSIVE, events=200, subscriptions=10)).save(made / "data" / "zipf")
    generate_stock(StockModel(subscriptions=10)).save(made / "data" / "stock")
    plan = controller.ask("GET", "/v1/schemas/stock/plan")["plan"]
    (made / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    (made / "trades.csv").write_text("price,side\n10.5,buy\n11.5,buy\n", encoding="utf-8")
    (made / "network.json").write_text(json.dumps(to_json(build("testbed"))), encoding="utf-8")
    with ServiceProcess(made / "pleroma", "fat-tree:4"):
        pass
    return made


def arguments_of(command, controller, folder):
    """The command as it is run here: at this controller, in this folder, and with an end."""
    there = command.replace("/var/lib/", f"{folder}/").replace("http://127.0.0.1:8470", controller.url)
    arguments = shlex.split(there)
    if arguments[0] == "subscribe" and "--count" not in arguments:
        arguments += ["--count", "1"]
    return arguments


@pytest.mark.parametrize("command", RUN)
def test_every_command_in_the_docs_does_what_it_is_asked(command, controller, folder, monkeypatch):
    if not LONG and command.startswith(SLOW):
        pytest.skip("takes seconds more: set PLEROMA_LONG=1")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PLEROMA_URL", controller.url)
    monkeypatch.setenv("PLEROMA_TOKEN", controller.token)
    given = json.dumps(QUOTE) if command.startswith("publish stock --filter") else None
    done = CliRunner().invoke(app, arguments_of(command, controller, folder), input=given)
    assert done.exit_code == 0, (done.output, done.exception)


@pytest.mark.parametrize(("start", "test"), ELSEWHERE.items())
def test_what_is_run_elsewhere_is(start, test):
    assert any(command.startswith(start) for command in LISTED), f"the docs have no {start}"
    assert start.split()[0] in (ROOT / test).read_text(encoding="utf-8")
