"""The commands against a real controller with a live network, each in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pleroma.content import Schema
from pleroma.index import GridIndex, IndexPlan

EXAMPLE = Path(__file__).parents[2] / "examples" / "stock.toml"
QUOTE = '{"ticker": "IBM", "price": 120.5, "volume": 900, "market": "nyse"}'


def command(*arguments, **more):
    return [sys.executable, "-m", "pleroma.cli", *map(str, arguments)], more


def ended(process):
    """Stopped by its process id, its pipes closed."""
    process.kill()
    with process:
        pass


class Controller:
    """`pleroma up` in a folder; commands run there find its token by themselves."""

    def __init__(self, folder):
        self.folder = folder
        arguments, _ = command("up", "--port", 0, "--topology", "line:3", "--json")
        self.process = subprocess.Popen(arguments, cwd=folder, stdout=subprocess.PIPE, text=True)
        self.told = json.loads(self.process.stdout.readline())

    def run(self, *arguments, **more):
        env = os.environ | {"PLEROMA_URL": self.told["url"]}
        listed, _ = command(*arguments)
        return subprocess.run(listed, cwd=self.folder, env=env, capture_output=True, text=True, timeout=60, **more)

    def answer(self, *arguments, **more):
        done = self.run(*arguments, "--json", **more)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def start(self, *arguments):
        env = os.environ | {"PLEROMA_URL": self.told["url"]}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command(*arguments)[0], cwd=self.folder, env=env, text=True, **pipes)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=20)
        return self.process.returncode


@pytest.fixture(scope="module")
def controller(tmp_path_factory):
    made = Controller(tmp_path_factory.mktemp("live"))
    try:
        yield made
    finally:
        assert made.stop() == 0


@pytest.fixture(scope="module")
def name(controller):
    found = controller.answer("schema", EXAMPLE)["schemas"]
    return found[0]["schema"]["name"]


def test_the_token_is_for_its_owner_only(controller):
    path = Path(controller.told["token_file"])
    path = path if path.is_absolute() else controller.folder / path
    assert path.stat().st_mode & 0o077 == 0


def test_what_is_published_is_printed_where_it_is_wanted_and_nowhere_else(controller, name):
    wanting = controller.start("subscribe", name, "ticker = 'IBM' and price > 100", "--count", 2, "--json")
    other = controller.start("subscribe", name, "price < 50", "--seconds", 6, "--json")
    killer = threading.Timer(50, lambda: (wanting.kill(), other.kill()))
    killer.start()
    try:
        for process in (wanting, other):
            assert "subscribed at" in process.stderr.readline()
        cheap = QUOTE.replace("120.5", "20.5")
        lines = "\n".join([QUOTE, QUOTE.replace("IBM", "MSFT"), QUOTE.replace("120.5", "150"), cheap])
        assert controller.answer("publish", name, input=lines)["published"] == 4
        printed = wanting.communicate()[0].splitlines()
        assert [json.loads(line)["price"] for line in printed[:-1]] == [120.5, 150.0]
        assert json.loads(printed[-1])["delivered"] == 2
        printed = other.communicate()[0].splitlines()
        assert [json.loads(line)["price"] for line in printed[:-1]] == [20.5]
    finally:
        killer.cancel()
        for process in (wanting, other):
            ended(process)


def test_status_flows_and_trace_tell_what_stands_and_why(controller, name):
    switches = [each["name"] for each in controller.answer("status")["switches"]]
    advertised = controller.answer("advertise", name, "price > 10", "--host", "h1")
    assert advertised["host"] == "h1"
    listening = controller.start("subscribe", name, "price > 100", "--seconds", 30)
    try:
        assert "subscribed at" in listening.stderr.readline()
        found = controller.answer("status")["statistics"]
        assert (found["advertisements"], found["subscriptions"]) == (1, 1)
        assert found["rules"] == sum(len(controller.answer("flows", switch)["flows"]) for switch in switches)
        reached = controller.answer("trace", name, QUOTE)
        (subscription,) = reached["subscriptions"]
        assert subscription["matches"]
        if subscription["host"] != "h1":
            assert reached["reached"] == [subscription["host"]]
        missed = controller.answer("trace", name, QUOTE.replace("120.5", "20"), "--host", subscription["host"])
        assert missed["subscriptions"][0]["failed"] == ["price"]
        assert subscription["host"] not in missed["reached"]
        shown = controller.run("trace", name, QUOTE).stdout
        assert "the way of" in shown
        assert "at the edge" in shown
        assert "rules of" in controller.run("flows", switches[0]).stdout
        assert "as clients report them" in controller.run("status").stdout
    finally:
        ended(listening)
    assert controller.answer("withdraw", advertised["id"]) == {"withdrawn": advertised["id"]}


def test_a_workload_is_replayed_and_every_delivery_accounted_for(controller):
    made = ("--model", "thesis", "--dimensions", 4, "--subscriptions", 40, "--events", 300)
    assert controller.run("workload", "make", "data", *made).returncode == 0
    figures = controller.answer("replay", "data", "--rate", 300)
    assert figures["missed"] == figures["too_many"] == 0
    assert figures["delivered"] == figures["wanted"] > 0


def test_the_plan_is_shown_changed_and_had_back(controller, name):
    first = controller.answer("plan", "show", name)
    schema = Schema.load(EXAMPLE)
    path = controller.folder / "plan.json"
    path.write_text(IndexPlan(1, GridIndex.regular(schema, 8, ["price"]), 64).dumps())
    changed = controller.answer("plan", "apply", path.name)
    assert (changed["epoch"], changed["changed"]) == (first["epoch"] + 1, True)
    assert controller.answer("plan", "apply", path.name)["changed"] is False
    shown = controller.run("plan", "show", name).stdout
    assert "a grid of 8 bits (price 8)" in shown
    assert "at most 64 cells a registration" in shown
    again = controller.run("plan", "apply", path.name).stdout
    assert "expected: " in again
    assert "is this one already" in again
    back = controller.answer("plan", "rollback", name, "--epoch", str(first["epoch"]), "--method", "versioning")
    assert back["epoch"] == first["epoch"] + 2
    plans = controller.answer("plan", "history", name)["plans"]
    assert [each["members"] for each in plans[-3:]] == [first["members"], 64, first["members"]]
    assert plans[-1]["plan"]["index"] == first["plan"]["index"]
    assert "plans of" in controller.run("plan", "history", name).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("publish", "nothing", "{}"), "unknown schema 'nothing'"),
        (("publish", "NAME", "[1]"), "event 1 is not a JSON object"),
        (("publish", "NAME", '{"price": 1}'), "volume"),
        (("publish", "NAME", QUOTE, "--filter", "price > 200"), "advertise"),
        (("subscribe", "NAME", "price >"), "expected a value"),
        (("flows", "s99"), "s99"),
        (("plan", "show", "nothing"), "unknown schema 'nothing'"),
        (("plan", "rollback", "NAME", "--epoch", "99"), "no plan 99"),
        (("plan", "rollback", "NAME", "--method", "hope"), "--method: unknown method 'hope'"),
        (("plan", "apply", "nowhere.json"), "nowhere.json"),
        (("withdraw", "s999999"), "no such subscription"),
        (("status", "--url", "http://127.0.0.1:9"), "no controller answers at"),
        (("status", "--token", "wrong"), "token"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(controller, name, arguments, said):
    done = controller.run(*(name if each == "NAME" else each for each in arguments))
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_the_demonstration_loses_nothing_and_leaves_nothing_running(tmp_path):
    listed, _ = command("demo", "--no-spark", "--seconds", 4, "--subscriptions", 24, "--rate", 40, "--json")
    done = subprocess.run(listed, cwd=tmp_path, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["missed"] == figures["too_many"] == 0
    before, after = figures["halves"]
    assert before["delivered"] > 0
    assert after["delivered"] > 0
    assert before["plan"] != after["plan"]
    assert not list(tmp_path.iterdir())
