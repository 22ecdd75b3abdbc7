"""The commands against a real controller with a live network, each in a process of its own."""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pleroma.cli.command_tree import app
from pleroma.content import Schema
from pleroma.index import GridIndex, IndexPlan
from support.docs_commands import ROOT, commands_in

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
        arguments, _ = command("up", "--port", 0, "--topology", "line:3", "--replan", "off", "--json")
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
    return controller.answer("schema", EXAMPLE)["schema"]["schema"]["name"]


def test_the_token_is_for_its_owner_only(controller):
    path = Path(controller.told["token_file"])
    path = path if path.is_absolute() else controller.folder / path
    assert path.stat().st_mode & 0o077 == 0


@pytest.fixture
def shell(controller, monkeypatch, tmp_path):
    """Commands in this process, in the controller's folder and with contexts of the test's own."""
    monkeypatch.chdir(controller.folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("PLEROMA_URL", controller.told["url"])

    def run(*arguments, expect=None):
        result = CliRunner().invoke(app, [str(each) for each in arguments], standalone_mode=False)
        if expect is not None:
            assert expect in str(result.exception), result
            return str(result.exception)
        if result.exception is not None:
            raise result.exception
        return json.loads(result.output.splitlines()[-1]) if "--json" in arguments else result.output

    return run


def test_principals_and_groups_from_the_shell(name, shell, tmp_path):
    file = tmp_path / "ann.token"
    shell("group", "add", "cheap", "--read", f"{name}=price < 50")
    shell("principal", "add", "ann", "--group", "cheap", expect="say where the token goes")
    said = shell("principal", "add", "ann", "--group", "cheap", "--expires-in", "90d", "--token-file", file)
    token = file.read_text().strip()
    assert file.stat().st_mode & 0o077 == 0
    assert token.startswith("plr_")
    assert token not in said
    assert str(file) in said.replace("\n", "")
    me = shell("principal", "show", "--token", token, "--json")
    assert (me["name"], me["rights"]["read"]) == ("ann", {name: "price < 50"})
    assert me["expires_at"] is not None
    made = shell("advertise", name, "price < 10", "--host", "h1", "--token", token, expect="may publish nothing")
    assert "plr_" not in made
    shell("principal", "grant", "ann", "--publish", name, "--subscriptions", 7, "--json")
    made = shell("advertise", name, "price < 10", "--host", "h1", "--token", token, "--json")
    gone = shell("principal", "revoke", "ann", "--publish", name)
    assert f"withdrawn: 1 registrations ({made['id']})" in gone
    assert "price < 50" in shell("principal", "show", "ann")
    assert [each["name"] for each in shell("principal", "list", "--group", "cheap", "--json")["principals"]] == ["ann"]
    assert "never" in shell("principal", "list")
    assert shell("group", "show", "cheap", "--json")["members"] == ["ann"]
    assert "members: ann" in shell("group", "show", "cheap")
    changed = shell("group", "grant", "cheap", "--read", name, "--publish", f"{name}=price < 3", "--json")
    assert (changed["read"], changed["publish"]) == ({name: "true"}, {name: "price < 3"})
    shell("group", "revoke", "cheap", "--publish", name)
    assert shell("group", "list", "--json")["groups"][0]["publish"] == {}
    rotated = shell("principal", "rotate", "ann", "--show-token", "--grace", "10m", "--json")
    assert rotated["earlier_expires_at"] is not None
    for each in (token, rotated["token"]):
        assert shell("principal", "show", "--token", each, "--json")["name"] == "ann"
    assert rotated["token"] not in shell("principal", "rotate", "ann", "--token-file", file)
    shell("principal", "show", "--token", token, expect="nobody has this token")
    shell("principal", "revoke", "ann", expect="say what")
    shell("group", "grant", "cheap", expect="say what")
    shell("principal", "rotate", "ann", "--grace", "soon", "--show-token", expect="is a time as")
    shell(
        "principal",
        "add",
        "x",
        "--expires-in",
        "1d",
        "--expires-at",
        "2099-01-01T00:00:00Z",
        "--show-token",
        expect="give one of",
    )
    shell("principal", "remove", "nobody", expect="no such principal")
    assert "removed" in shell("group", "remove", "cheap")
    assert shell("principal", "remove", "ann", "--json") == {"removed": "ann"}


def test_the_administrator_replaces_its_own_token_where_it_is_kept(controller, shell):
    path = controller.folder / ".pleroma" / "admin.token"
    before = path.read_text().strip()
    said = shell("principal", "rotate", "admin")
    token = path.read_text().strip()
    assert token != before
    assert token not in said
    assert path.stat().st_mode & 0o077 == 0
    shell("principal", "show", "--token", before, expect="nobody has this token")
    assert shell("principal", "show", "--json")["name"] == "admin"
    shell("principal", "rotate", "admin", "--token", "plr_x", expect="nobody has this token")


def test_a_context_finds_the_controller_from_anywhere(controller, shell, monkeypatch, tmp_path):
    token_file = controller.folder / ".pleroma" / "admin.token"
    shell("context", "add", "live", "--url", controller.told["url"], "--token-file", token_file)
    monkeypatch.delenv("PLEROMA_URL")
    monkeypatch.chdir(tmp_path)
    assert shell("principal", "show", "--json")["role"] == "admin"
    assert "admin" in shell("principal", "rotate", "admin")
    assert shell("principal", "show", "--context", "live", "--json")["role"] == "admin"


@pytest.mark.parametrize("named", [(), ("--context", "live")])
def test_where_a_new_token_goes_does_not_say_who_asks_for_it(controller, shell, monkeypatch, tmp_path, named):
    """From elsewhere, by a context: with the token that it keeps, and not with one that lies around."""
    token_file, made = controller.folder / ".pleroma" / "admin.token", tmp_path / "new.token"
    shell("context", "add", "live", "--url", controller.told["url"], "--token-file", token_file)
    monkeypatch.delenv("PLEROMA_URL")
    monkeypatch.chdir(tmp_path)
    shell("principal", "add", "newcomer", "--token-file", made, *named)
    first = made.read_text()
    shell("principal", "rotate", "newcomer", "--token-file", made, *named)
    assert made.read_text() != first
    assert shell("principal", "show", "newcomer", "--json")["name"] == "newcomer"
    shell("principal", "remove", "newcomer")


def test_the_page_runs_in_order(controller, name, shell, monkeypatch, tmp_path):
    """Of docs/cli.md, the commands about contexts and people."""
    assert name == "stock"
    for each in ("prod.token", "ca.pem"):
        (tmp_path / each).write_text("plr_x\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    listed = [shlex.split(each) for each in commands_in(ROOT / "docs" / "cli.md")]
    people = [each for each in listed if each[0] in ("context", "principal", "group") or "--context" in each]
    assert len(people) > 15
    for each in people:
        said = " ".join(each)
        there = {
            "http://127.0.0.1:8470": controller.told["url"],
            "~/": f"{tmp_path}/",
            "ca.pem": str(tmp_path / "ca.pem"),
        }
        for before, after in there.items():
            each = [word.replace(before, after) for word in each]
        assert "plr_" not in shell(*each), said


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


def test_a_schema_is_given_again_shown_and_removed(controller, name, tmp_path):
    again = controller.run("schema", EXAMPLE)
    assert f"{name} is there already, as in {EXAMPLE}" in again.stdout.replace("\n", "")
    other = tmp_path / "other.toml"
    other.write_text(EXAMPLE.read_text().replace("max = 1023", "max = 2047"))
    differing = controller.run("schema", other)
    assert differing.returncode == 2
    assert "max of volume is 1023 there and 2047 here" in differing.stderr
    assert "pleroma schema rm stock" in differing.stderr
    assert "pleroma schema extend" in differing.stderr
    other.write_text(EXAMPLE.read_text().replace('name = "stock"', 'name = "gone"'))
    assert controller.answer("schema", "add", other)["created"]
    assert "any text" in controller.run("schema", "show", "gone").stdout
    assert controller.answer("schema", "rm", "gone") == {"schema": "gone", "principals": []}
    assert [each["schema"]["name"] for each in controller.answer("schema")["schemas"]].count("gone") == 0
    assert "unknown schema 'gone'" in controller.run("schema", "rm", "gone").stderr


def test_a_schema_goes_over_to_a_later_version_and_the_first_is_still_one_of_its_own(controller, tmp_path):
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    first.write_text(EXAMPLE.read_text().replace('name = "stock"', 'name = "widening"', 1))
    second.write_text(first.read_text().replace("max = 1023", "max = 2047"))
    assert controller.answer("schema", first)["created"]
    listening = controller.start("subscribe", "widening", "volume > 1000", "--count", 2, "--json")
    try:
        assert "subscribed at" in listening.stderr.readline()
        extended = controller.answer("schema", "extend", second)
        assert (extended["version"], extended["withdrawn"]) == (2, [])
        assert "has version 2" in controller.run("schema", "extend", second).stdout
        assert "is version 1 of 2" in controller.run("schema", first).stdout.replace("\n", "")
        assert "is there already" in controller.run("schema", second).stdout
        assert "version 2" in controller.run("schema", "show", "widening").stdout
        refused = controller.run("schema", "extend", first)
        assert (refused.returncode, "is version 1, and version 2 is in force" in refused.stderr) == (2, True)
        quotes = [json.dumps(json.loads(QUOTE) | {"volume": volume}) for volume in (1010, 2000)]
        controller.run("publish", "widening", *quotes)
        out, _ = listening.communicate(timeout=30)
        assert [json.loads(line)["volume"] for line in out.splitlines()[:2]] == [1010, 2000]
    finally:
        ended(listening)
    assert controller.answer("schema", "rm", "widening")["schema"] == "widening"


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
