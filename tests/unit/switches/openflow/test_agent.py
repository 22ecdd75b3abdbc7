"""An agent against a switch that refuses, falls silent, goes away, and is tampered with."""

import asyncio

import pytest

from pleroma.errors import SwitchFenced, SwitchGone, SwitchRefused, SwitchSilent
from pleroma.index import Dz
from pleroma.index.address import IPV6
from pleroma.routing import Change, DetourOp, Flow, Output
from pleroma.switches.openflow.agent import TABLE_FULL, Agent, SwitchTimeouts
from pleroma.switches.openflow.rule import CountedRule, RuleChange
from pleroma.switches.openflow.tables import FORWARDING, RuleLayout
from pleroma.switches.switch_status import UpkeepCounts

PATIENCE = SwitchTimeouts(answer=1.0, audit=1000.0, grace=1.0)
LAYOUT = RuleLayout(IPV6)
HOSTS = (type("H", (), {"address": "fd00::7", "ethernet": "02:00:00:00:00:07"}),)


def rule(bits, port=1):
    return LAYOUT.forwarding(Flow(Dz.parse(bits), (Output(port),)))


def detour(bits, port=1):
    return LAYOUT.change(DetourOp("R1", Change.ADD, Flow(Dz.parse(bits), (Output(port),))))[1]


def wanting(*rules):
    return [(each.key, each) for each in rules]


class FakeSwitch:
    """Keeps rules, and does with bundles what it is told to."""

    def __init__(self, *rules):
        self.rules = {each.key: each for each in rules}
        self.plan = []
        self.bundles = []
        self.reads = 0
        self.unreadable = 0
        self.capacity = None
        self.hold = asyncio.Event()
        self.hold.set()
        self.closed = False

    async def commit(self, changes, _timeout):
        await self.hold.wait()
        self.bundles.append(list(changes))
        step = self.plan.pop(0) if self.plan else "do"
        if isinstance(step, Exception) and not isinstance(step, SwitchSilent):
            raise step
        new = dict(self.rules)
        for index, (change, each) in enumerate(changes):
            if change is Change.DELETE:
                del new[each.key]
            else:
                assert (each.key in new) == (change is Change.MODIFY)
                new[each.key] = each
            if self.capacity is not None and len(new) > self.capacity:
                raise SwitchRefused("full", kind=TABLE_FULL[0], code=TABLE_FULL[1], index=index)
        if not (isinstance(step, SwitchSilent) and step.value == "undone"):
            self.rules = new
        if isinstance(step, Exception):
            raise step

    async def flows(self, _cookie, _mask, _table, _timeout):
        self.reads += 1
        if self.plan and self.plan[0] == "silent read":
            self.plan.pop(0)
            raise SwitchSilent("no answer", field="switch")
        return [CountedRule(each, 0, 0) for each in self.rules.values()] + [None] * self.unreadable

    async def wipe(self, _cookie, _mask, _timeout):
        self.rules, self.unreadable = {}, 0

    def close(self):
        self.closed = True


def run(work):
    async def limited():
        async with asyncio.timeout(20):
            told = []
            agent = Agent("R1", PATIENCE, lambda agent: told.append(agent.state))
            try:
                await work(agent, told)
            finally:
                agent.close()
                await asyncio.sleep(0)

    asyncio.run(limited())


async def confirmed(agent, *rules):
    agent.want(wanting(*rules))
    await agent.confirmed()


def test_what_is_wanted_is_sent_in_one_bundle_and_confirmed():
    async def work(agent, told):
        switch = FakeSwitch()
        agent.connected(switch)
        await confirmed(agent, rule("0"), rule("01"))
        assert switch.bundles == [[RuleChange(Change.ADD, rule("01")), RuleChange(Change.ADD, rule("0"))]]
        assert told == ["reading", "ready"]

    run(work)


def test_when_all_is_in_force_nobody_waits():
    async def work(agent, _):
        agent.connected(FakeSwitch())
        await confirmed(agent, rule("0"))
        await asyncio.wait_for(agent.confirmed(), 5)
        agent.want([(rule("0").key, None)])
        await asyncio.wait_for(agent.confirmed(), 5)
        assert not agent.wanted
        assert not agent.known

    run(work)


def test_a_switch_that_comes_back_gets_only_the_difference():
    async def work(agent, told):
        stale, kept = rule("111"), rule("0")
        agent.want(wanting(kept, rule("10", port=2)))
        switch = FakeSwitch(kept, rule("10", port=9), stale)
        agent.connected(switch)
        await agent.confirmed()
        assert switch.bundles == [[RuleChange(Change.DELETE, stale), RuleChange(Change.MODIFY, rule("10", port=2))]]
        agent.disconnected(switch)
        agent.want([(kept.key, None)])
        again = FakeSwitch(*switch.rules.values())
        agent.connected(again)
        await agent.confirmed()
        assert again.bundles == [[RuleChange(Change.DELETE, kept)]]
        assert told == ["reading", "ready", "away", "reading", "ready"]

    run(work)


@pytest.mark.parametrize("fate", ["done", "undone"])
def test_after_silence_the_truth_is_read_before_anything_is_sent(fate):
    async def work(agent, _told):
        switch = FakeSwitch()
        agent.connected(switch)
        await confirmed(agent, rule("0"))
        switch.plan = [SwitchSilent("no answer", field="switch", value=fate)]
        await confirmed(agent, rule("1"))
        assert set(switch.rules) == {rule("0").key, rule("1").key}
        assert switch.reads == 2
        assert len(switch.bundles) == (2 if fate == "done" else 3)
        assert agent.counts.silent == 1
        assert agent.counts.repaired == 0  # nobody changed anything by hand

    run(work)


def test_requests_that_depend_on_undefined_rules_wait():
    async def work(agent, _told):
        switch = FakeSwitch()
        agent.connected(switch)
        await confirmed(agent, rule("0"))
        switch.hold.clear()
        waiting = [asyncio.create_task(confirmed(agent, rule(bits))) for bits in ("1", "10")]
        await asyncio.sleep(0.05)
        assert not any(each.done() for each in waiting)
        switch.plan = [SwitchSilent("no answer", field="switch", value="undone")]
        switch.hold.set()
        await asyncio.gather(*waiting)
        assert len(switch.rules) == 3

    run(work)


def test_a_switch_that_does_not_even_tell_its_table_is_dropped():
    async def work(agent, _told):
        switch = FakeSwitch()
        switch.plan = ["silent read"]
        agent.connected(switch)
        waiting = asyncio.create_task(confirmed(agent, rule("0")))
        while not switch.closed:
            await asyncio.sleep(0.01)
        assert agent.state == "away"
        assert not waiting.done()
        other = FakeSwitch()
        agent.connected(other)
        await waiting
        assert list(other.rules.values()) == [rule("0")]

    run(work)


def test_nobody_waits_for_a_switch_that_counts_as_gone():
    async def work(agent, _told):
        waiting = asyncio.create_task(confirmed(agent, rule("0")))
        await asyncio.sleep(0.01)
        agent.give_up()
        await waiting
        await confirmed(agent, rule("1"))
        switch = FakeSwitch()
        agent.connected(switch)
        while agent.state != "ready":
            await asyncio.sleep(0.01)
        assert len(switch.rules) == 2

    run(work)


def test_what_a_switch_refuses_is_reported_not_recorded_and_the_rest_goes_on():
    async def work(agent, _told):
        switch = FakeSwitch()
        switch.plan = [SwitchRefused("bad match", kind="BAD_MATCH", code="BAD_VALUE", index=1)]
        agent.connected(switch)
        with pytest.raises(SwitchRefused, match="bad match"):
            await confirmed(agent, rule("000"), rule("00"), rule("0"))
        assert set(switch.rules) == {rule("000").key, rule("0").key}
        assert agent.refused.keys() == {rule("00").key}
        assert not agent.is_full
        await confirmed(agent, rule("00", port=3))  # asked again, it is sent again
        assert len(switch.rules) == 3
        assert not agent.refused

    run(work)


def test_of_a_bundle_that_is_refused_as_a_whole_the_additions_are_left_out_and_the_rest_goes_on():
    async def work(agent, _told):
        switch = FakeSwitch(rule("1"), rule("11"))
        switch.plan = [SwitchRefused("no", kind="BAD_REQUEST", code="EPERM", index=None)]
        agent.want(wanting(rule("1", port=2), rule("0"), rule("00")))
        agent.connected(switch)
        with pytest.raises(SwitchRefused, match="no"):
            await agent.confirmed()
        assert agent.refused.keys() == {rule("0").key, rule("00").key}
        assert switch.rules == {rule("1").key: rule("1", port=2)}

    run(work)


def test_what_was_refused_is_tried_again_at_the_next_audit():
    async def work(agent, _told):
        agent._timeouts = SwitchTimeouts(answer=1.0, audit=0.05, grace=1.0)
        switch = FakeSwitch()
        switch.plan = [SwitchRefused("not now", kind="BAD_ACTION", code="EPERM", index=0)]
        agent.connected(switch)
        with pytest.raises(SwitchRefused, match="not now"):
            await confirmed(agent, rule("0"))
        while not switch.rules:
            await asyncio.sleep(0.01)
        await agent.confirmed()
        assert not agent.refused

    run(work)


def test_a_full_switch_is_told_apart_and_from_where_it_refused_its_room_is_known():
    async def work(agent, _told):
        switch = FakeSwitch()
        agent.connected(switch)
        await confirmed(agent, rule("0"), rule("1"), rule("111"))
        switch.capacity = 4
        agent.want([(rule("111").key, None), *wanting(rule("01"), rule("10"), rule("00"))])
        with pytest.raises(SwitchRefused, match="full"):
            await agent.confirmed()
        assert agent.is_full
        assert agent.room == 4
        assert agent.refused.keys() == {rule("01").key, rule("10").key, rule("00").key}, "all additions, not only one"
        assert set(switch.rules) == {rule("0").key, rule("1").key}, "what makes room is not held up"
        agent.want([(rule("00").key, None), (rule("111").key, None)])
        await agent.confirmed()
        assert len(switch.rules) == 4
        agent.want([(rule("01").key, None), (rule("10").key, None), (rule("0").key, None), *wanting(rule("11"))])
        await agent.confirmed()
        assert not agent.is_full
        assert set(switch.rules) == {rule("1").key, rule("11").key}

    run(work)


def test_many_changes_go_in_several_bundles_unless_room_is_scarce():
    async def work(agent, _told):
        switch = FakeSwitch()
        agent.connected(switch)
        old = [rule(f"0{number:012b}") for number in range(1500)]
        new = [rule(f"1{number:012b}") for number in range(1500)]
        await confirmed(agent, *old)
        assert [len(each) for each in switch.bundles] == [1000, 500]
        switch.capacity = 1500
        agent.want([*((each.key, None) for each in old), *wanting(*new)])
        await agent.confirmed()
        assert [len(each) for each in switch.bundles][2:] == [1000, 3000]
        assert {each.key for each in new} == set(switch.rules)

    run(work)


def test_rules_that_a_switch_always_has_are_replaced_as_a_set_and_the_same_set_again_is_no_work():
    async def work(agent, _told):
        switch = FakeSwitch()
        agent.connected(switch)
        agent.set_base_rules(dict(wanting(rule("0"), rule("1"))))
        await confirmed(agent, rule("01"))
        agent.set_base_rules(dict(wanting(rule("1"), rule("0"))))
        assert agent._confirmed == agent._version
        agent.set_base_rules(dict(wanting(rule("1"), rule("11"))))
        await agent.confirmed()
        assert switch.rules == dict(wanting(rule("1"), rule("11"), rule("01")))

    run(work)


@pytest.mark.parametrize("was_full", [False, True])
def test_below_a_detour_a_full_table_turns_over_in_several_bundles_and_no_bundle_is_refused(was_full):
    async def work(agent, _told):
        switch = FakeSwitch()
        agent.connected(switch)
        over = detour("")
        old = [rule(f"0{number:012b}") for number in range(1500)]
        new = [rule(f"1{number:012b}") for number in range(1500)]
        await confirmed(agent, over, *old)
        switch.capacity = len(switch.rules)
        if was_full:
            with pytest.raises(SwitchRefused, match="full"):
                await confirmed(agent, rule("11"))
            agent.want([(rule("11").key, None)])
            await agent.confirmed()
        bundles, refusals = len(switch.bundles), agent.counts.refusals
        assert refusals == (2 if was_full else 0), "in its own bundle, and again when the table counts as tight"
        agent.want([*((each.key, None) for each in old), *wanting(*new)])
        await agent.confirmed()
        assert [len(each) for each in switch.bundles][bundles:] == ([1000, 500] * 2 if was_full else [1000] * 3)
        assert agent.counts.refusals == refusals
        assert set(switch.rules) == {over.key, *(each.key for each in new)}

    run(work)


def test_a_bundle_that_is_refused_voids_those_after_it_and_those_before_it_stand():
    async def work(agent, _told):
        switch = FakeSwitch()
        agent.connected(switch)
        rules = [rule(f"{number:012b}") for number in range(3000)]
        switch.plan = ["do", SwitchRefused("bad match", kind="BAD_MATCH", code="BAD_VALUE", index=3)]
        with pytest.raises(SwitchRefused, match="bad match"):
            await confirmed(agent, *rules)
        assert len(agent.refused) == 1
        assert [len(each) for each in switch.bundles] == [1000, 1000, 1000, 999]
        assert len(switch.rules) == 2999
        assert agent.counts == UpkeepCounts(read=1, changed=2999, refusals=1)

    run(work)


def test_an_audit_finds_and_repairs_what_somebody_changed_by_hand():
    async def work(agent, _told):
        agent._timeouts = SwitchTimeouts(answer=1.0, audit=0.05, grace=1.0)
        switch = FakeSwitch()
        agent.connected(switch)
        await confirmed(agent, rule("0"), rule("1"))
        del switch.rules[rule("0").key]
        switch.rules[rule("1").key] = rule("1", port=7)
        switch.rules[rule("11").key] = rule("11")
        right = {each.key: each for each in (rule("0"), rule("1"))}
        while switch.rules != right:
            await asyncio.sleep(0.01)
        assert agent.counts.repaired == 3
        assert agent.state == "ready"

    run(work)


def test_work_without_end_does_not_keep_audits_away():
    async def work(agent, _told):
        agent._timeouts = SwitchTimeouts(answer=1.0, audit=0.05, grace=1.0)
        switch = FakeSwitch()
        agent.connected(switch)
        for number in range(100):
            await confirmed(agent, rule(f"{number:08b}"))
            await asyncio.sleep(0.002)
        assert switch.reads > 2

    run(work)


def test_rules_of_ours_that_nobody_can_read_are_cleared_away():
    async def work(agent, _told):
        switch = FakeSwitch(rule("0"))
        switch.unreadable = 1
        agent.connected(switch)
        await confirmed(agent, rule("0"), rule("1"))
        assert len(switch.rules) == 2
        assert switch.unreadable == 0

    run(work)


def test_a_new_connection_takes_the_place_of_one_that_was_not_seen_to_end():
    async def work(agent, _told):
        old, new = FakeSwitch(), FakeSwitch()
        old.hold.clear()
        agent.connected(old)
        waiting = asyncio.create_task(confirmed(agent, rule("0")))
        await asyncio.sleep(0.02)
        agent.connected(new)
        await waiting
        assert list(new.rules.values()) == [rule("0")]
        assert old.closed
        agent.disconnected(old)  # which comes late
        assert agent.state == "ready"

    run(work)


@pytest.mark.parametrize("is_gone", [False, True])
def test_an_agent_that_is_fenced_confirms_nothing_any_more(is_gone):
    async def work(agent, _told):
        fenced = SwitchFenced("another")
        waiting = asyncio.create_task(confirmed(agent, rule("0")))
        await asyncio.sleep(0)
        agent.fence(fenced)
        if is_gone:
            agent.give_up()
        for asked in (waiting, agent.confirmed()):
            with pytest.raises(SwitchFenced) as error:
                await asked
            assert error.value is fenced

    run(work)


def test_closing_lets_nobody_wait():
    async def work(agent, _told):
        waiting = asyncio.create_task(confirmed(agent, rule("0")))
        await asyncio.sleep(0)
        agent.close()
        with pytest.raises(SwitchGone):
            await waiting

    run(work)


def test_closing_ends_the_connection_and_nothing_more_is_sent_by_it():
    async def work(agent, _told):
        switch = FakeSwitch()
        agent.connected(switch)
        await confirmed(agent, rule("0"))
        agent.close()
        assert switch.closed
        agent.want(wanting(rule("1")))
        await asyncio.sleep(0.05)
        assert len(switch.bundles) == 1

    run(work)


def test_a_flow_becomes_a_rule_and_is_read_back():
    for flow in (
        Flow(Dz.parse("0110"), (Output(1), Output(2, "fd00::7"), Output(5))),
        Flow(Dz.parse(""), (Output(3),)),
    ):
        LAYOUT.hosts = lambda: HOSTS
        made = LAYOUT.forwarding(flow)
        assert LAYOUT.flow(made) == flow
        assert made.table == FORWARDING
        assert [send.port for send in made.sends][-1] == (2 if len(flow.outputs) > 1 else 3)  # rewriting comes last
