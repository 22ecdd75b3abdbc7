"""Traces on Open vSwitch: as the controller wants the rules, and as they are after somebody changed them by hand."""

import json
import os
import signal
import time
from collections import Counter
from dataclasses import replace
from unittest import mock

import pytest

from pleroma.control import Advance, ChangePlan, CreatePrincipal
from pleroma.index import IPV6, Dz, GridIndex
from pleroma.lab import registry
from pleroma.routing import build
from pleroma.service import create_app
from pleroma.service.http.tokens import digest
from pleroma.service.planes import openflow_plane
from support.network.weather_requests import WEATHER, advertise, subscribe
from support.network.world import world
from support.service.in_process import ADMIN, UNLIMITED, Api

LINE = build("line:3")  # h1 - h2 - h3
WINDY = {"temperature": 25.0, "wind": 30}
EVENT = WEATHER.event(WINDY)
OUR_COOKIE = "cookie=0x504c524d00000000/0xffffffff00000000"


@pytest.fixture
def made(tmp_path):
    """h1 publishes everything, h3 wants windy weather; a change of plans goes on only when it is told to."""
    with mock.patch.object(openflow_plane, "SWITCH_CACHE_SECONDS", 3600.0), world(LINE, tmp_path) as there:
        there.submit(CreatePrincipal("operator", "admin", digest(ADMIN)))
        there.submit(advertise("h1", "true"), subscribe("h3", "wind > 20"))
        yield there


def traced(made, **more):
    async def ask():
        api = Api(create_app(made.controller, made.plane, UNLIMITED))
        async with api.client:
            return await api.get("/v1/trace", params={"schema": "weather", "event": json.dumps(WINDY)} | more)

    return made.run(ask())


def cause(answer, host="h3"):
    (only,) = [each for each in answer["verdicts"] if each["host"] == host]
    return only["cause"]


def steps(answer):
    return [step for way in answer["ways"] for step in way["steps"]]


def marks(answer):
    """The kinds of differences, by switch."""
    return {x["switch"]: [each["kind"] for each in x["differences"]] for x in steps(answer) if x["differences"]}


def comes(made, seconds=10.0):
    """Whether h3 really gets the event when h1 sends it, in so many seconds."""
    made.switches.count()  # so that the fast path has followed the rules
    entry = made.controller.state.schemas["weather"]
    (dz,) = entry.index.dzs(EVENT)
    made.hosts.send("h1", entry.prefix.then(dz), b"traced")
    expected = Counter({("h3", b"traced"): 1})
    return made.hosts.gather(expected, seconds) == expected


def test_what_is_wanted_is_what_is_there(made):
    for live in ("false", "true"):
        answer = traced(made, live=live, to="h3")
        assert (cause(answer), answer["reached"], marks(answer)) == ("delivered", ["h3"], {})
        assert [step["standing"] for step in steps(answer)] == ["confirmed"] * 3
        assert [step["follows"] for step in steps(answer)] == ["rule"] * 3
    assert comes(made)


@pytest.mark.parametrize("method", ["lightweight", "versioning"])
def test_while_a_plan_changes_the_detours_decide_and_both_plans_are_shown(made, method):
    made.submit(ChangePlan("weather", GridIndex.regular(WEATHER, 6, ("wind",)), method, whole=True))
    kinds = ["detour" if method == "lightweight" else "rule"] * 6
    for phase, plans in (("prepared", ["in_force", "next"]), ("swapped", ["in_force", "last"])):
        for live in ("false", "true"):
            answer = traced(made, live=live, to="h3")
            assert (answer["phase"], [plan["plan"] for plan in answer["plans"]]) == (phase, plans)
            assert [step["follows"] for step in steps(answer)] == kinds
            assert [way["receivers"] for way in answer["ways"]] == [["h3"], ["h3"]]
            assert (cause(answer), marks(answer)) == ("delivered", {})
            assert {step["standing"] for step in steps(answer)} == {"confirmed"}
        made.submit(Advance("weather", "swap" if phase == "prepared" else "clear"))
    after = traced(made, live="true", to="h3")
    assert (after["phase"], [step["follows"] for step in steps(after)]) == ("settled", ["rule"] * 3)


def test_a_rule_that_somebody_deleted_is_missing_where_it_was(made):
    made.lab.ofctl("R2", "del-flows", f"{OUR_COOKIE},table=1")
    wanted, found = traced(made, to="h3"), traced(made, to="h3", live="true")
    assert (cause(wanted), wanted["reached"], marks(wanted)) == ("delivered", ["h3"], {})
    assert (cause(found), found["reached"], marks(found)) == ("rule_missing", [], {"R2": ["rule_missing"]})
    assert [step["switch"] for step in steps(found)] == ["R1", "R2"]
    assert found["verdicts"][0]["text"].startswith("lost at R2: the rule ")
    assert not comes(made, 0.5)


def test_a_rule_that_somebody_changed_or_added_under_our_cookie_is_marked(made):
    before = traced(made)
    dz, whole = (Dz.parse(bits) for bits in (steps(before)[1]["rule"]["dz"], before["ways"][0]["dz"]))
    changed = f"table=1,priority={100 + dz.length},udp6,ipv6_dst={IPV6.prefix(dz)},actions=drop"
    made.lab.ofctl("R2", "mod-flows", "--strict", changed)
    found = traced(made, to="h3", live="true")
    assert (cause(found), marks(found)) == ("rule_changed", {"R2": ["rule_changed"]})
    added = f"table=1,priority={100 + whole.length},udp6,ipv6_dst={IPV6.prefix(whole)},actions=output:1"
    made.lab.ofctl("R2", "add-flow", f"cookie=0x504c524d00000000,{added}")
    stray = traced(made, live="true")
    assert marks(stray) == {"R2": ["rule_changed", "rule_unwanted"]}
    assert stray["reached"] == []  # it comes to h2, but not under the address of h2


def test_a_rule_of_somebody_else_in_front_is_followed_and_named(made):
    port = LINE.host["h1"].port
    below = f"cookie=0x99,table=0,priority=5,in_port={port},actions=drop"
    unknown = "cookie=0x98,table=0,priority=61000,udp6,udp_dst=9,actions=drop"
    made.lab.ofctl("R1", "add-flow", below)
    made.lab.ofctl("R1", "add-flow", unknown)
    possible = traced(made, to="h3", live="true")
    assert (cause(possible), marks(possible)) == ("delivered", {"R1": ["foreign_rule_may_match"]})
    assert "cookie 0x98" in steps(possible)[0]["differences"][0]["text"]
    made.lab.ofctl("R1", "add-flow", f"cookie=0x97,table=0,priority=61000,in_port={port},actions=drop")
    found = traced(made, to="h3", live="true")
    assert (cause(found), found["reached"]) == ("foreign_rule", [])
    assert (steps(found)[0]["dropped"], steps(found)[0]["follows"]) == ("foreign_rule", "foreign")
    assert "cookie 0x97: matches in_port=" in found["verdicts"][0]["text"]
    assert not comes(made, 0.5)


def test_from_a_host_without_an_advertisement_the_cause_is_named(made):
    for live in ("false", "true"):
        answer = traced(made, host="h2", to="h3", live=live)
        assert (cause(answer), marks(answer)) == ("not_advertised_here", {})
        assert [step["dropped"] for step in steps(answer)] == ["not_admitted"]
        assert answer["verdicts"][0]["text"].endswith("has advertised nothing that covers it; h1 has")
    made.lab.ofctl("R1", "del-flows", f"{OUR_COOKIE},table=0,in_port={LINE.host['h1'].port}")
    shut = traced(made, live="true", to="h3")
    assert (cause(shut), marks(shut)) == ("not_admitted", {"R1": ["rule_missing"]})


def test_switches_that_have_stopped_are_marked_and_nobody_waits_long(made):
    stopped = registry.marked(made.lab.name, "ovs-vswitchd")
    for process in stopped:
        os.kill(process, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        answer = traced(made, to="h3", live="true")
        took = time.monotonic() - begun
    finally:
        for process in stopped:
            os.kill(process, signal.SIGCONT)
    assert (cause(answer), answer["reached"]) == ("switch_silent", ["h3"])
    assert marks(answer) == {switch: ["not_answering"] for switch in LINE.switches}
    assert took < 10  # all are asked at once


def test_a_host_that_is_away_is_the_cause_on_either_end(made):
    made.lab.cut(LINE.host["h3"])
    made.until_right(replace(LINE, hosts=LINE.hosts[:2]))
    assert cause(traced(made, to="h3")) == "host_away"
    made.lab.mend(LINE.host["h3"])
    made.until_right()
    made.lab.cut(LINE.links[1])
    made.until_right(LINE.without(links=[LINE.links[1]]))
    apart = traced(made, to="h3")
    assert cause(apart) == "cut_off"
    assert Dz.parse(apart["ways"][0]["dz"]).length > 0
