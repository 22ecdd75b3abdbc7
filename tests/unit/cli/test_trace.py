"""What `pleroma trace` prints of an answer: the entrance, every step with its remarks, and the verdict last."""

import io
import json
from contextlib import contextmanager

import pytest
from rich.console import Console

from pleroma.cli import output
from pleroma.cli.commands import trace as command


def step(switch="R1", **more):
    plain = {
        "switch": switch,
        "from": "h1",
        "in_port": 1,
        "standing": "confirmed",
        "refusal": None,
        "follows": "rule",
        "rule": {"dz": "01", "outputs": [], "text": ""},
        "coarser": False,
        "needless_ports": [],
        "dropped": None,
        "outputs": [{"port": 2, "to": "R2", "rewrite": None, "carries": True, "taken": True}],
        "near": [],
        "differences": [],
    }
    return plain | more


def answer(*steps, plans=("in_force",), live=False, verdicts=(), tree=None, admission=None, reached=("h3",)):
    admitted = {"admitted": True, "cell": "0", "near": []}
    return {
        "schema": "stock",
        "epoch": 1,
        "host": "h1",
        "live": live,
        "plans": [{"epoch": number, "plan": plan, "dz": ["0101"]} for number, plan in enumerate(plans, 1)],
        "ways": [
            {"epoch": n, "plan": p, "host": "h1", "dz": "0101", "tree": tree, "admission": admission or admitted}
            | {"steps": list(steps), "receivers": list(reached), "looped": False}
            for n, p in enumerate(plans, 1)
        ],
        "reached": list(reached),
        "verdicts": [{"host": h, "cause": "delivered", "text": t, "epochs": e} for h, t, e in verdicts],
        "subscriptions": [
            {"id": "s1", "host": "h3", "filter": "price > 5", "matches": True, "failed": [], "reached": True},
            {"id": "s2", "host": "h4", "filter": "price > 9", "matches": False, "failed": ["price"], "reached": True},
            {"id": "s3", "host": "h5", "filter": "price > 8", "matches": False, "failed": ["price"], "reached": False},
        ],
    }


@pytest.fixture
def shown(monkeypatch):
    """What the command prints of an answer, and what it asked for."""

    def show(given, **options):
        asked = {}

        class Remote:
            def get(self, path, **query):
                asked.update(query, path=path)
                return json.loads(json.dumps(given))

        @contextmanager
        def remote(*_):
            yield Remote()

        console = Console(width=200, highlight=False, record=True, file=io.StringIO())
        monkeypatch.setattr(command, "remote_api", remote)
        monkeypatch.setattr(command, "out", console)
        monkeypatch.setattr(output, "out", console)
        command.trace("stock", "{}", **options)
        return console.export_text(), asked

    return show


def test_the_options_are_what_the_api_is_asked(shown):
    _, plain = shown(answer(step()))
    assert plain == {"path": "/v1/trace", "schema": "stock", "event": "{}"}
    _, all_of_them = shown(answer(step()), host="h3", source="h1", live=True)
    assert all_of_them == plain | {"to": "h3", "host": "h1", "live": "true"}


def test_the_way_is_shown_and_the_verdict_comes_last(shown):
    text, _ = shown(answer(step(), verdicts=[("h3", "it arrives", [1])]))
    assert "plan 1 (in force): enters at h1, admitted by 0\n" in text
    assert "the rules are those wanted; --live reads them from the switches" in text
    assert "reaches h3" in text
    assert "rule 01" in text
    assert "2 to R2" in text
    assert text.splitlines()[-1] == "h3: it arrives"
    for words in ("matches", "dropped at the edge", "does not match"):
        assert words in text
    assert "s2" not in shown(answer(step()), host="h3")[0]


def test_while_a_plan_changes_ways_and_verdicts_say_by_which_plan(shown):
    verdicts = [("h3", "it arrives", [1, 2]), (None, "nobody wants it", [2])]
    text, _ = shown(answer(step(), plans=("in_force", "next"), verdicts=verdicts, live=True))
    assert "plan 1 (in force)" in text
    assert "plan 2 (the next)" in text
    assert text.splitlines()[-2:] == ["h3, by plan 1 and 2: it arrives", "by plan 2: nobody wants it"]
    assert "the rules are those read from the switches" in text


def test_what_does_not_get_in_says_so(shown):
    near = {"admitted": False, "cell": None, "near": ["00", "011"]}
    refused = step(rule=None, follows=None, dropped="not_admitted", outputs=[])
    text, _ = shown(answer(refused, admission=near, reached=(), verdicts=[(None, "not admitted: …", [1])]))
    assert "plan 1 (in force): not admitted at h1; nearest are 00, 011\n" in text
    assert "reaches nobody" in text
    assert text.splitlines()[-1] == "not admitted: …"
    unsent = answer() | {"ways": [], "plans": [{"epoch": 4, "plan": "in_force", "dz": []}]}
    said, _ = shown(unsent)
    assert "plan 4 (in force) does not send it" in said
    assert "reaches" not in said
    assert "--live" not in said


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"rule": None, "follows": None, "dropped": "nobody_behind"}, "nobody behind wants it"),
        ({"dropped": "only_back"}, "wanted only where it came from"),
        ({"coarser": True, "needless_ports": [2, 3]}, "coarser for want of room, needless: port 2, 3"),
        ({"standing": "behind"}, "not confirmed yet"),
        ({"standing": "refused", "refusal": "table full"}, "table full"),
        ({"standing": "away"}, "not connected: it has the rules that it had"),
        ({"differences": [{"kind": "rule_changed", "text": "was changed"}]}, "was changed"),
        ({"follows": "detour"}, "detour 01"),
        ({"follows": "foreign", "rule": {"dz": None, "outputs": [], "text": "x"}}, "a rule of somebody else"),
        ({"near": [{"dz": "011", "shared": 2}]}, "011 (shares 2 bits)"),
        ({"outputs": [{"port": 7, "to": None, "carries": False, "taken": False}]}, "7 to nowhere"),
        ({"outputs": [{"port": 7, "to": "R4", "carries": False, "taken": True}]}, "7 to R4 (down)"),
        ({"outputs": [{"port": 7, "to": "h4", "carries": True, "taken": False}]}, "7 to h4 (not taken: another"),
    ],
)
def test_a_step_is_shown_with_its_remarks(shown, more, words):
    assert words in shown(answer(step(**more)))[0]
    assert words not in shown(answer(step()))[0]


def test_one_of_several_trees_is_named(shown):
    text, _ = shown(answer(step(), tree={"number": 2, "of": 5, "cells": 1, "first_cells": ["01"]}))
    assert "admitted by 0, on tree 2 of 5\n" in text


def test_every_word_of_the_api_has_words_for_people():
    from pleroma.switches.tracing.examined_step import DROPS, STANDINGS

    assert set(command._DROPS) == set(DROPS)
    assert {*command._STANDINGS, "confirmed"} == set(STANDINGS)
