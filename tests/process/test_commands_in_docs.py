"""The commands of the docs, run against a controller, in a folder that has what they name."""

import json
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
from support.docs_commands import LISTED, PAGES, ROOT, commands_in
from support.service.process import ServiceProcess

TAKEN_FROM_THE_DOCS = "support.docs_commands"
"""In a test file that runs the commands as the docs have them."""
PAGE_OF_WORKLOADS = ("tests/unit/cli/test_workloads_page.py", "for line in commands()")
ON_SPARK = ("tests/spark/test_commands_on_spark.py", TAKEN_FROM_THE_DOCS)
OF_PEOPLE = ("tests/process/test_live_commands.py", TAKEN_FROM_THE_DOCS)
SERVICES = ("tests/process/test_services_in_docs.py", TAKEN_FROM_THE_DOCS)
LAB, BROKEN_LAB = "tests/network/test_lab.py", "tests/network/test_lab_commands.py"
LAKE_UPKEEP = "tests/unit/pipeline/test_migration.py"
ELSEWHERE = {
    "agent": ("tests/support/network/agent_process.py", '"pleroma.cli", "agent"'),
    "audit": ON_SPARK,
    "broker": SERVICES,
    "check /var/lib/pleroma --repair": ("tests/attack/test_check_command.py", '["check", str(folder), "--repair"'),
    "context": OF_PEOPLE,
    "demo --no-spark": ("tests/process/test_live_commands.py", '"demo", "--no-spark"'),
    "demo": ON_SPARK,
    'explain "category': PAGE_OF_WORKLOADS,
    "experiment fig11a --spark": ON_SPARK,
    "experiment frontier": ON_SPARK,
    "group": OF_PEOPLE,
    "lab cut": (BROKEN_LAB, '"lab", "cut"'),
    "lab down": (LAB, 'pleroma("down"'),
    "lab exec": (LAB, 'pleroma("exec"'),
    "lab flows": (BROKEN_LAB, '"lab", "flows"'),
    "lab list": (LAB, 'pleroma("list"'),
    "lab mend": (BROKEN_LAB, '"lab", "mend"'),
    "lab ofctl": (BROKEN_LAB, '"lab", "ofctl"'),
    "lab spark": ON_SPARK,
    "lab start": (BROKEN_LAB, '"lab", "start"'),
    "lab stop": (BROKEN_LAB, '"lab", "stop"'),
    "lab up testbed --addresses ipv4": (BROKEN_LAB, '"lab", "up"'),
    "lab up": (LAB, 'pleroma("up"'),
    "log move": ("tests/process/test_log_move.py", '"log", "move"'),
    "pipeline maintain": (LAKE_UPKEEP, '"pipeline", "maintain"'),
    "pipeline migrate": (LAKE_UPKEEP, '"pipeline", "migrate"'),
    "pipeline sweep": ON_SPARK,
    "pipeline tune": ON_SPARK,
    "pipeline watch": ON_SPARK,
    "principal": OF_PEOPLE,
    "schema rm": ("tests/process/test_live_commands.py", '"schema", "rm"'),
    "simulate data/orders": PAGE_OF_WORKLOADS,
    "status --context": OF_PEOPLE,
    "status --url https": ("tests/service/test_https.py", '["status", "--url", service.url'),
    "tune /var/lib": ("tests/unit/cli/test_tune_lake.py", '["tune", lake.url'),
    "tune data/many": PAGE_OF_WORKLOADS,
    "tune data/orders": PAGE_OF_WORKLOADS,
    "up": SERVICES,
    "workload import": PAGE_OF_WORKLOADS,
    "workload show data/orders": PAGE_OF_WORKLOADS,
}
"""Commands that take root, Spark, a lake or a process of their own, by how they begin: a test file, and its call."""
SAVED = ("backup", "restore", "check restored")
"""Commands that follow one another, as their page has them."""
SMALLER = {"experiment": ("--quick",), "simulate --": ("--events", "400"), "subscribe": ("--count", "1")}
"""What is added to a command, by how it begins: less to compute than in the docs, or an end."""
BESIDE = {"make data/zipf": "make made/zipf", "stock data/stock": "stock made/stock"}
"""Where a workload of full size is made, beside the small one of that name that other commands read."""
QUOTE = {"ticker": "IBM", "price": 120.5, "volume": 900}
LAST = ("tune data/zipf", "tune data/stock", "simulate")
"""In this order, since `tune` writes the plan that `simulate` reads."""


def place(command):
    return next((number for number, start in enumerate(LAST, 1) if command.startswith(start)), 0)


RUN = sorted((command for command in LISTED if not command.startswith((*ELSEWHERE, *SAVED))), key=place)


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
    quotes = generate_stock(StockModel(subscriptions=10))
    replace(quotes, events=quotes.events[::40]).save(made / "data" / "stock")
    plan = controller.ask("GET", "/v1/schemas/stock/plan")["plan"]
    (made / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    (made / "trades.csv").write_text("price,side\n10.5,buy\n11.5,buy\n", encoding="utf-8")
    (made / "network.json").write_text(json.dumps(to_json(build("testbed"))), encoding="utf-8")
    with ServiceProcess(made / "pleroma", "fat-tree:4"):
        pass
    return made


def arguments_of(command, controller, folder):
    """The command as it is run here: at this controller, in this folder, small, and with an end."""
    smaller = (words for start, words in SMALLER.items() if f"{command} --".startswith(start))
    more = [word for words in smaller if words[0] not in command for word in words]
    for said, here in (BESIDE | {"/var/lib/": f"{folder}/", "http://127.0.0.1:8470": controller.url}).items():
        command = command.replace(said, here)
    return [*shlex.split(command), *more]


@pytest.fixture
def here(controller, folder, monkeypatch):
    """The folder, with the controller in the environment."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PLEROMA_URL", controller.url)
    monkeypatch.setenv("PLEROMA_TOKEN", controller.token)


@pytest.mark.parametrize("command", RUN)
@pytest.mark.usefixtures("here")
def test_every_command_in_the_docs_does_what_it_is_asked(command, controller, folder):
    given = json.dumps(QUOTE) if command.startswith("publish stock --filter") else None
    done = CliRunner().invoke(app, arguments_of(command, controller, folder), input=given)
    assert done.exit_code == 0, (done.output, done.exception)


@pytest.mark.parametrize("page", [page for page in PAGES if any(each.startswith(SAVED) for each in commands_in(page))])
def test_a_controller_that_runs_is_backed_up_and_restored_as_the_page_says(page, controller, tmp_path, monkeypatch):
    """Commands whose target is the folder of a controller restore into another one: here the controller still runs."""
    monkeypatch.chdir(tmp_path)
    places = {"/var/backups/": f"{tmp_path}/", " .pleroma ": " /var/lib/pleroma "}
    for command in (each for each in commands_in(page) if each.startswith(SAVED)):
        for said, there in places.items():
            command = command.replace(said, there)
        target = "restored-there" if command.startswith("restore") else str(controller.folder)
        done = CliRunner().invoke(app, shlex.split(command.replace("/var/lib/pleroma", target)))
        assert done.exit_code == 0, (command, done.output, done.exception)
    restored = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert restored or not any(each.startswith("restore") for each in commands_in(page))
    for each in restored:
        assert (each / "admin.token").read_text() == (controller.folder / "admin.token").read_text()


@pytest.mark.parametrize(("start", "test"), ELSEWHERE.items())
def test_what_is_run_elsewhere_is(start, test):
    file, running = test
    assert any(command.startswith(start) for command in LISTED), f"the docs have no {start}"
    assert running in (ROOT / file).read_text(encoding="utf-8"), f"{file} does not run {start}"
