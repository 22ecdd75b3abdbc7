"""Traces over HTTP: every cause that the embedded network can have, by either plan, as wanted and as it is."""

import asyncio
import json
from dataclasses import replace
from typing import get_args

from pleroma.content import Schema
from pleroma.control import Advance, ChangePlan, PlanChangeTiming
from pleroma.control.state.command import ChooseTrees
from pleroma.index import Dz, GridIndex
from pleroma.index.selective_index import Rectangle, SelectiveIndex, SelectiveRegion
from pleroma.routing import Change, DetourOp, Flow, FlowOp, Presence
from pleroma.routing.admission import AdmitOp
from pleroma.service.http.examples import EXAMPLE_SCHEMA
from pleroma.service.http.resources import trace as trace_resource
from pleroma.switches.tracing.meeting import SwitchStanding
from support.service.in_process import world
from support.waiting import run

STOCK = Schema.from_json(EXAMPLE_SCHEMA)
QUOTE = {"price": 60.0, "volume": 5, "ticker": "AAPL"}


async def traced(api, **more):
    return await api.get("/v1/trace", params={"schema": "stock", "event": json.dumps(QUOTE)} | more)


def verdict(answer):
    (only,) = answer["verdicts"]
    return only["host"], only["cause"]


def parts(api):
    """The controller and the network behind the API."""
    service = api.app.state.service
    return service.controller, service.plane.network


def test_a_delivered_event_names_its_admission_and_every_step(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            await api.advertise("price > 50", "h1")
            await api.subscribe("price > 50", "h8")
            answer = await traced(api, to="h8")
            assert verdict(answer) == ("h8", "delivered")
            assert answer["verdicts"][0]["text"] == "it arrives, and 1 subscription matches"
            (way,) = answer["ways"]
            assert way["admission"]["admitted"]
            assert way["dz"].startswith(way["admission"]["cell"])
            assert (way["epoch"], way["plan"], way["tree"]) == (1, "in_force", None)
            assert {step["standing"] for step in way["steps"]} == {"confirmed"}
            assert {step["follows"] for step in way["steps"]} == {"rule"}
            assert (answer["phase"], answer["live"]) == ("settled", False)
            await api.subscribe("price > 10", "h8")
            assert (await traced(api, to="h8"))["verdicts"][0]["text"] == "it arrives, and 2 subscriptions match"

    run(main)


def test_an_event_that_is_not_advertised_has_that_as_its_cause(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            await api.subscribe("price > 50", "h8")
            nobody = await traced(api)
            assert (verdict(nobody), nobody["host"], nobody["ways"]) == ((None, "not_advertised"), None, [])
            assert verdict(await traced(api, host="h1")) == (None, "not_advertised")
            assert verdict(await traced(api, host="h1", to="h8")) == ("h8", "not_advertised")
            await api.advertise("price > 50", "h2")
            await api.advertise("price > 500 and volume > 10", "h1")
            here = await traced(api, host="h1", to="h8")
            assert verdict(here) == ("h8", "not_advertised_here")
            assert here["verdicts"][0]["text"] == (
                "not admitted: h1 has advertised nothing that covers it (the nearest advertisement, "
                "price > 500 and volume >= 11 at h1, misses it by price, volume); h2 has"
            )
            (way,) = here["ways"]
            assert (way["admission"]["admitted"], way["admission"]["cell"]) == (False, None)
            assert 1 <= len(way["admission"]["near"]) <= 3
            assert [(step["dropped"], step["outputs"]) for step in way["steps"]] == [("not_admitted", [])]
            listed = {each["host"]: (each["matches"], each["failed"]) for each in here["advertisements"]}
            assert listed == {"h2": (True, []), "h1": (False, ["price", "volume"])}
            assert verdict(await traced(api, to="h8")) == ("h8", "delivered")

    run(main)


def test_what_is_wanted_nowhere_or_elsewhere_says_so(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            await api.advertise("true", "h1")
            lonely = await traced(api)
            assert verdict(lonely) == (None, "no_subscription")
            assert [step["dropped"] for step in lonely["ways"][0]["steps"]] == ["nobody_behind"]
            assert verdict(await traced(api, to="h8")) == ("h8", "not_subscribed")
            await api.subscribe("price > 900", "h8")
            missed = await traced(api, to="h8")
            assert verdict(missed) == ("h8", "not_matched")
            assert "price > 900 at h8, misses it by price" in missed["verdicts"][0]["text"]
            await api.subscribe("price > 50", "h1")
            assert verdict(await traced(api, to="h1")) == ("h1", "same_host")
            await api.subscribe("price > 50", "h2")
            everybody = {each["host"]: each["cause"] for each in (await traced(api))["verdicts"]}
            assert everybody == {"h1": "same_host", "h2": "delivered"}

    run(main)


def test_waste_by_the_index_is_told_with_the_attribute_that_it_overlooks(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            controller, _ = parts(api)
            await controller.plan_changes.change(ChangePlan("stock", GridIndex.regular(STOCK, 4, ("price",))))
            await api.advertise("true", "h1")
            await api.subscribe("price > 50 and volume > 900", "h8")
            wasted = await traced(api, to="h8")
            assert verdict(wasted) == ("h8", "waste_index")
            assert "misses it by volume" in wasted["verdicts"][0]["text"]
            (edge,) = wasted["subscriptions"]
            assert (edge["reached"], edge["matches"], edge["failed"]) == (True, False, ["volume"])

    run(main)


def test_waste_by_a_coarser_rule_is_told_with_the_switch_that_is_full(tmp_path):
    async def main():
        async with world(tmp_path, topology="line:3", limit=1) as api:
            await api.advertise("true", "h1")
            await api.subscribe("price > 900", "h2")
            await api.subscribe("price > 50 and price < 70", "h3")
            answer = await traced(api)
            causes = {each["host"]: each["cause"] for each in answer["verdicts"]}
            assert causes == {"h3": "delivered", "h2": "waste_coarser_rule"}
            steps = {step["switch"]: step for step in answer["ways"][0]["steps"]}
            assert steps["R2"]["coarser"]
            assert steps["R2"]["needless_ports"] == [parts(api)[1].topology.host["h2"].port]

    run(main)


def test_an_event_that_a_quiet_index_does_not_send_says_so(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            controller, _ = parts(api)
            grid = GridIndex.regular(STOCK, 4, ("price",))
            cheap = Rectangle(tuple((low, high / 50 if n == 0 else high) for n, (low, high) in enumerate(extents())))
            inner = SelectiveRegion(Dz.parse("0"), cheap, grid)
            index = SelectiveIndex(STOCK, (inner, SelectiveRegion(Dz.parse("1"), None, grid)), quiet=True)
            await controller.plan_changes.change(ChangePlan("stock", index))
            await api.advertise("price < 19", "h1")
            answer = await traced(api, host="h1")
            assert verdict(answer) == (None, "not_sent")
            assert (answer["plans"][0]["dz"], answer["ways"]) == ([], [])

    run(main)


def extents():
    return [attribute.extent for attribute in STOCK.attributes]


def held():
    """A change of plans goes on only when it is told to, since somebody publishes."""
    return PlanChangeTiming(sleep=lambda _: asyncio.Event().wait())


async def steps_of_a_change(api, method):
    """The answers before, between and after the steps of a change of plans."""
    controller, _ = parts(api)
    yield await traced(api)
    await controller.submit(ChangePlan("stock", GridIndex.regular(STOCK, 6, ("volume", "price")), method, whole=True))
    yield await traced(api)
    await controller.submit(Advance("stock", "swap"))
    yield await traced(api)
    await controller.submit(Advance("stock", "clear"))
    yield await traced(api)


def test_while_a_plan_changes_both_ways_are_shown_with_detours_and_by_epoch(tmp_path):
    async def main():
        async with world(tmp_path, timing=held()) as api:
            await api.advertise("true", "h1")
            await api.subscribe("price > 50", "h8")
            await api.subscribe("price > 900", "h4")
            seen = [answer async for answer in steps_of_a_change(api, "lightweight")]
            assert [answer["phase"] for answer in seen] == ["settled", "prepared", "swapped", "settled"]
            plans = [[(plan["epoch"], plan["plan"]) for plan in answer["plans"]] for answer in seen]
            in_between = [[(1, "in_force"), (2, "next")], [(2, "in_force"), (1, "last")]]
            assert plans == [[(1, "in_force")], *in_between, [(2, "in_force")]]
            for number, answer in enumerate(seen):
                kinds = {step["follows"] for way in answer["ways"] for step in way["steps"]}
                assert kinds == ({"detour"} if number in (1, 2) else {"rule"})
                causes = {each["host"]: (each["cause"], len(each["epochs"])) for each in answer["verdicts"]}
                assert causes["h8"] == ("delivered", len(answer["plans"]))
                if number in (1, 2):
                    assert causes["h4"] == ("waste_plan_change", 2)
            assert [plan["dz"] for plan in seen[1]["plans"]] == [plan["dz"] for plan in reversed(seen[2]["plans"])]

    run(main)


def test_where_there_are_several_trees_the_one_of_the_event_is_named(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            controller, _ = parts(api)
            await controller.submit(ChooseTrees("forest"))
            await api.post("/v1/schemas", {"schema": EXAMPLE_SCHEMA | {"name": "shares"}})
            for schema, host in (("shares", "h2"), ("stock", "h1")):
                await api.post("/v1/advertisements", {"schema": schema, "filter": "true", "host": host})
                await api.post("/v1/subscriptions", {"schema": schema, "filter": "true", "host": "h8"})
            way, other = [(await traced(api, schema=name))["ways"][0] for name in ("stock", "shares")]
            assert way["tree"]["number"] != other["tree"]["number"]
            assert way["tree"]["of"] == other["tree"]["of"] >= 2
            assert any(way["dz"].startswith(cell.replace("ε", "")) for cell in way["tree"]["first_cells"])
            assert way["tree"]["cells"] >= len(way["tree"]["first_cells"])

    run(main)


def test_with_versions_each_plan_has_its_own_rules_and_prefix(tmp_path):
    async def main():
        async with world(tmp_path, timing=held()) as api:
            await api.advertise("true", "h1")
            await api.subscribe("price > 50", "h8")
            seen = [answer async for answer in steps_of_a_change(api, "versioning")]
            for answer in seen:
                assert {step["follows"] for way in answer["ways"] for step in way["steps"]} == {"rule"}
                assert all(way["receivers"] == ["h8"] for way in answer["ways"])
                assert verdict(await traced(api, to="h4")) == ("h4", "not_subscribed")
            old, new = (plan["dz"][0] for plan in seen[1]["plans"])
            assert old[:8] != new[:8]
            assert [plan["dz"][0] for plan in seen[2]["plans"]] == [new, old]

    run(main)


def ops_of(network, answer, switch):
    """What deletes the rule that the event follows at a switch."""
    step = next(step for step in answer["ways"][0]["steps"] if step["switch"] == switch)
    flow = network.flow_tables()[switch][Dz.parse(step["rule"]["dz"])]
    return [FlowOp(switch, Change.DELETE, flow)]


def test_read_back_a_missing_rule_is_the_cause_and_as_wanted_the_switch_is_behind(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            _, network = parts(api)
            await api.advertise("true", "h1")
            await api.subscribe("price > 50", "h8")
            whole = await traced(api, live="true", to="h8")
            assert verdict(whole) == ("h8", "delivered")
            assert [step["differences"] for step in whole["ways"][0]["steps"]] == [[]] * len(whole["ways"][0]["steps"])
            middle = whole["ways"][0]["steps"][1]["switch"]
            await network.install(ops_of(network, whole, middle))
            wanted = await traced(api, to="h8")
            assert verdict(wanted) == ("h8", "switch_behind")
            assert wanted["reached"] == ["h8"]
            found = await traced(api, to="h8", live="true")
            assert (verdict(found), found["reached"]) == (("h8", "rule_missing"), [])
            last = found["ways"][0]["steps"][-1]
            assert (last["switch"], last["dropped"]) == (middle, "rule_missing")
            assert [difference["kind"] for difference in last["differences"]] == ["rule_missing"]
            text = found["verdicts"][0]["text"]
            assert text.startswith(f"lost at {middle}: the rule ")
            assert text.endswith(" is not on the switch, which has not confirmed its rules yet")

    run(main)


def test_two_switches_that_are_the_whole_network_are_not_cut_off_from_each_other(tmp_path):
    async def main():
        async with world(tmp_path, topology="line:2") as api:
            _, network = parts(api)
            await api.advertise("true", "h1")
            await api.subscribe("price > 50", "h2")
            whole = await traced(api, to="h2")
            await network.install(ops_of(network, whole, whole["ways"][0]["steps"][-1]["switch"]))
            assert verdict(await traced(api, to="h2", live="true")) == ("h2", "rule_missing")

    run(main)


def test_switches_are_read_again_if_other_rules_are_wanted_meanwhile(tmp_path, monkeypatch):
    async def main():
        async with world(tmp_path) as api:
            await api.advertise("true", "h1")
            await api.subscribe("price > 50", "h8")
            plane, read = api.app.state.service.plane, []

            async def read_rules(switch, seconds):
                there = await reading(switch, seconds)
                found = replace(there, rules=there.rules.copy(), detours=there.detours.copy())
                read.append(switch)
                if len(read) == 1:
                    await api.subscribe("price > 50", "h2")
                return found

            reading = plane.read_rules
            monkeypatch.setattr(plane, "read_rules", read_rules)
            answer = await traced(api, live="true")
            assert {each["host"]: each["cause"] for each in answer["verdicts"]} == {
                "h2": "delivered",
                "h8": "delivered",
            }
            steps = answer["ways"][0]["steps"]
            assert not [difference for step in steps for difference in step["differences"]]
            assert max(map(read.count, read)) == 2
            assert len(read) > len(steps)

    run(main)


def test_switches_whose_rules_change_all_the_time_are_read_three_times(tmp_path, monkeypatch):
    async def main():
        async with world(tmp_path) as api:
            controller, _ = parts(api)
            await api.advertise("true", "h1")
            place, plane, read = controller.state.topology.host["h1"].switch, api.app.state.service.plane, []

            async def read_rules(switch, seconds):
                read.append(switch)
                if switch == place:
                    await api.subscribe("price > 50", f"h{1 + read.count(place)}")
                return await reading(switch, seconds)

            reading = plane.read_rules
            monkeypatch.setattr(plane, "read_rules", read_rules)
            assert (await traced(api, live="true"))["live"]
            assert read.count(place) == 3

    run(main)


def test_read_back_a_stray_rule_is_the_cause_of_waste(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            _, network = parts(api)
            await api.advertise("true", "h1")
            await api.subscribe("price > 50", "h8")
            place = network.topology.host["h2"]
            stray = Flow(Dz(1), next(iter(network.flow_tables()[place.switch])).outputs)
            to_h2 = stray._replace(outputs=(*stray.outputs, type(stray.outputs[0])(place.port, place.address)))
            await network.install([DetourOp(place.switch, Change.ADD, to_h2)])
            answer = await traced(api, live="true", host="h1")
            causes = {each["host"]: each["cause"] for each in answer["verdicts"]}
            assert causes == {"h8": "delivered", "h2": "waste_stray_rule"}

    run(main)


def test_read_back_an_admission_that_is_missing_is_the_cause(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            _, network = parts(api)
            await api.advertise("true", "h1")
            await api.subscribe("price > 50", "h8")
            place = network.topology.host["h1"]
            cells = network.rules(place.switch).cells(place.port)
            await network.install([AdmitOp(place.switch, Change.DELETE, place.port, dz) for dz in set(cells)])
            found = await traced(api, live="true")
            assert verdict(found) == (None, "not_admitted")
            assert "(the admission of " in found["verdicts"][0]["text"]
            assert found["ways"][0]["admission"]["admitted"]  # by what is wanted
            await network.install([AdmitOp(place.switch, Change.ADD, place.port, Dz(1))])
            open_door = await traced(api, live="true", to="h8")
            assert verdict(open_door) == ("h8", "delivered")
            kinds = [difference["kind"] for difference in open_door["ways"][0]["steps"][0]["differences"]]
            assert kinds == ["rule_missing", "rule_unwanted"]

    run(main)


def test_the_page_for_operators_has_every_word_that_a_trace_uses():
    from pathlib import Path

    from pleroma.service.http.tracing.verdict import TraceCause
    from pleroma.switches.tracing.examined_step import DIFFERENCE_KINDS, DROPS, STANDINGS

    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    for word in (*get_args(TraceCause), *DIFFERENCE_KINDS, *DROPS, *STANDINGS):
        assert f"`{word}`" in page, word


def test_what_is_down_or_away_is_the_cause(tmp_path):
    async def main():
        async with world(tmp_path, topology="line:3") as api:
            await api.advertise("true", "h1")
            await api.subscribe("price > 50", "h3")
            plane = api.app.state.service.plane
            topology = plane.network.topology
            ends = {name: (topology.host[name].switch, topology.host[name].port) for name in ("h1", "h3")}
            link = topology.links[1].ends[0]
            for presence, cause, words in (
                (Presence(down={ends["h3"]}), "host_away", "h3 is away, since port 1 of R3 is down"),
                (Presence({ends["h3"][0]}), "host_away", "h3 is away, since R3 is gone"),
                (Presence(down={ends["h1"]}), "sender_away", "it is not sent: h1 is away"),
                (Presence(down={link}), "cut_off", "no way leads from h1 to h3"),
            ):
                plane.presence = lambda presence=presence: presence
                answer = await traced(api, to="h3")
                assert (verdict(answer), answer["reached"]) == (("h3", cause), [])
                assert words in answer["verdicts"][0]["text"]

    run(main)


def test_a_switch_that_has_not_confirmed_or_does_not_answer_makes_the_verdict_uncertain(tmp_path):
    async def main():
        async with world(tmp_path, topology="line:3") as api:
            await api.advertise("true", "h1")
            await api.subscribe("price > 50", "h3")
            plane = api.app.state.service.plane
            confirmed = plane.standing
            for state, refused, cause in (
                ("away", (), "switch_away"),
                ("reading", (), "switch_behind"),
                ("ready", ("no room",), "switch_refused"),
            ):
                odd = SwitchStanding(state, None, refused)
                plane.standing = lambda s, *more, odd=odd: odd if s == "R2" else confirmed(s, *more)
                answer = await traced(api, to="h3")
                assert (verdict(answer), answer["reached"]) == (("h3", cause), ["h3"])
                assert "R2 on the way to h3" in answer["verdicts"][0]["text"]
            read = plane.read_rules

            async def silent(switch, seconds):
                return None if switch == "R2" else await read(switch, seconds)

            plane.read_rules = silent
            answer = await traced(api, to="h3", live="true")
            assert (verdict(answer), answer["reached"]) == (("h3", "switch_silent"), ["h3"])
            marked = {x["switch"]: [y["kind"] for y in x["differences"]] for x in answer["ways"][0]["steps"]}
            assert marked == {"R1": [], "R2": ["not_answering"], "R3": []}

    run(main)


def test_registrations_are_compared_in_pieces_and_listed_until_their_filters_are_long(tmp_path, monkeypatch):
    async def main():
        async with world(tmp_path) as api:
            await api.advertise()
            for price in range(7):
                await api.subscribe(f"price > {price}")
            whole = await traced(api)
            monkeypatch.setattr(trace_resource, "COMPARED_IN_A_TURN", 2)
            assert await traced(api) == whole
            assert len(whole["subscriptions"]) == 7
            monkeypatch.setattr(trace_resource, "MAX_EXPLAINED_CHARACTERS", 20)
            assert (await traced(api))["subscriptions"] == whole["subscriptions"][:3]

    run(main)
