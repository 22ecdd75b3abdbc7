"""Hosts that are learned: durable, one place each, and gone only when nothing stands there."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.control import (
    CommandRefused,
    Controller,
    ControlState,
    CreateSchema,
    Done,
    ForgetHost,
    LearnHost,
    Withdraw,
    command_from_json,
)
from pleroma.control.kept_answers import KeptAnswers
from pleroma.control.state.command import Rewire, canonical, written
from pleroma.control.state_snapshot import restore, snapshot
from pleroma.errors import AlreadyThere, ControlError, NotAllowed, NotThere
from pleroma.index import IPV6
from pleroma.routing import Topology
from pleroma.switches.openflow.tables import FORWARDING, RuleLayout
from support.control_cases import ANN, LINE, SMALL, WEATHER, advertise, state_after, subscribe

MAC = "02:00:00:00:00:07"
NEW = LearnHost("kiosk", "R2", 7, "fd00::77", MAC)


def refused(state, command, kind, field=None):
    foretold = state.check(command)
    result = state.apply(99, command)
    assert isinstance(result, CommandRefused)
    assert isinstance(result.error, kind)
    assert str(foretold) == str(result.error)
    assert field is None or result.error.field == field
    return result.error


def restarted(state, topology=LINE):
    return restore(snapshot(state, KeptAnswers()), topology, SMALL)[0]


def test_a_host_that_was_learned_can_be_registered_at():
    state = state_after(CreateSchema(WEATHER), ANN, NEW)
    assert state.topology.host["kiosk"].address == "fd00::77"
    assert state.topology.host["kiosk"].mac == MAC
    assert isinstance(state.apply(5, subscribe("ann", "wind < 3", host="kiosk")), Done)


def test_what_is_registered_there_has_an_effect_while_its_switch_is_there():
    state = state_after(CreateSchema(WEATHER), ANN, Rewire(("R2",)), NEW, advertise("ann", "true", host="h1"))
    assert not state.apply(7, subscribe("ann", "true", host="kiosk")).flows
    ops = state.apply(8, Rewire()).flows
    assert {op.switch for op in ops} == {"R1", "R2"}
    (flow,) = [op.flow for op in ops if op.switch == "R2"]
    assert [(output.port, output.rewrite) for output in flow.outputs] == [(7, "fd00::77")]


def test_learning_it_again_changes_nothing():
    state = state_after(NEW)
    before = state.topology
    assert isinstance(state.apply(2, NEW), Done)
    assert isinstance(state.apply(3, LearnHost("kiosk", "R2", 7, "FD00:0::77", MAC.upper())), Done)
    assert state.topology is before


@pytest.mark.parametrize(
    ("command", "field"),
    [
        (LearnHost("kiosk", "R3", 7, "fd00::77", MAC), "name"),
        (LearnHost("kiosk", "R2", 8, "fd00::77", MAC), "name"),
        (LearnHost("kiosk", "R2", 7, "fd00::78", MAC), "name"),
        (LearnHost("kiosk", "R2", 7, "fd00::77", "02:00:00:00:00:08"), "mac"),
        (LearnHost("other", "R2", 7, "fd00::78", MAC), "port"),
        (LearnHost("other", "R2", 8, "fd00::77", MAC), "address"),
        (LearnHost("h1", "R2", 8, "fd00::78", MAC), "name"),
        (LearnHost("other", "R2", 8, "fd00::1", MAC), "address"),
    ],
)
def test_what_belongs_to_another_host_is_refused(command, field):
    refused(state_after(NEW), command, AlreadyThere, field)


@pytest.mark.parametrize(
    "command",
    [
        LearnHost("", "R2", 7, "fd00::77", MAC),
        LearnHost("any", "R2", 7, "fd00::77", MAC),
        LearnHost("R1", "R2", 7, "fd00::77", MAC),
        LearnHost("x", "R2", 0, "fd00::77", MAC),
        LearnHost("x", "R2", True, "fd00::77", MAC),
        LearnHost("x", "R2", 7, "nowhere", MAC),
        LearnHost("x", "R2", 7, "ff0e::1", MAC),
        LearnHost("x", "R2", 7, "fd00::77", "me"),
        LearnHost("x", "R2", 7, None, MAC),
        LearnHost("x", "R2", LINE.links[0].b_port, "fd00::77", MAC),
    ],
)
def test_what_is_no_host_is_refused_and_changes_nothing(command):
    state = state_after()
    refused(state, command, ControlError)
    assert state.topology is LINE


def test_a_switch_that_nobody_described_comes_with_its_first_host():
    state = ControlState(Topology((), (), ()), SMALL)
    assert isinstance(state.apply(1, NEW), Done)
    assert state.topology.switches == ("R2",)
    again = restarted(state, Topology((), (), ()))
    assert again.topology.host == state.topology.host
    assert again.network == state.network


def test_a_host_where_something_stands_is_not_forgotten():
    state = state_after(CreateSchema(WEATHER), ANN, NEW, subscribe("ann", "wind < 3", host="kiosk"))
    error = refused(state, ForgetHost("kiosk"), AlreadyThere, "host")
    assert "1 registrations stand" in error.reason
    assert isinstance(state.apply(6, Withdraw("s4", "ann")), Done)
    assert isinstance(state.apply(7, ForgetHost("kiosk")), Done)
    refused(state, subscribe("ann", "wind < 3", host="kiosk"), Exception, "host")
    assert isinstance(state.apply(8, LearnHost("other", "R2", 7, "fd00::77", MAC)), Done)


def test_hosts_of_the_description_are_not_forgotten():
    state = state_after()
    refused(state, ForgetHost("h1"), NotAllowed, "host")
    refused(state, ForgetHost("nobody"), NotThere, "host")


commands = st.builds(
    LearnHost,
    st.sampled_from(["a", "b", "h1"]),
    st.sampled_from(["R1", "R2", "new"]),
    st.integers(4, 6),
    st.sampled_from(["fd00::a", "fd00::b", "10.0.0.1"]),
    st.sampled_from([MAC, ""]),
) | st.builds(ForgetHost, st.sampled_from(["a", "b", "h1"]))


@given(st.lists(commands, max_size=20))
def test_any_history_ends_in_the_same_hosts_from_the_log_and_from_a_snapshot(history):
    state, log = state_after(), []
    for position, command in enumerate(history, 1):
        foretold = state.check(command)
        assert (foretold is None) == isinstance(state.apply(position, command), Done)
        assert written(command) == canonical(command.to_json())
        log.append(written(command))
        places = [(host.switch, host.port) for host in state.topology.hosts]
        assert len(set(places)) == len(places)
    replayed = ControlState(LINE, SMALL)
    for position, line in enumerate(log, 1):
        replayed.apply(position, command_from_json(json.loads(line)))
    assert replayed.topology.hosts == state.topology.hosts == restarted(state).topology.hosts
    assert restarted(state).learned == state.learned


class Layouts:
    """Makes OpenFlow rules of what it is told, and confirms when it is let."""

    def __init__(self):
        self.rules, self.let = {}, asyncio.Event()
        self.layout = RuleLayout(IPV6)

    def resume(self, state):
        self.layout.hosts = lambda: state.topology.hosts

    async def install(self, ops):
        self.rules.update(map(self.layout.change, ops))
        await self.let.wait()


def test_a_switch_that_is_behind_gets_over_a_host_that_is_forgotten_meanwhile(tmp_path):
    async def scenario():
        network = Layouts()
        network.let.set()
        async with await Controller.open(tmp_path, LINE, network, SMALL, resume=network.resume) as controller:
            for each in (CreateSchema(WEATHER), ANN, NEW, advertise("ann", "true", host="h1")):
                await controller.submit(each)
            network.let.clear()
            subscribed = asyncio.create_task(controller.submit(subscribe("ann", "true", host="kiosk")))
            while not (standing := [each for each in controller.state.registrations if each[0] == "s"]):
                await asyncio.sleep(0)
            withdrawn = asyncio.create_task(controller.submit(Withdraw(standing[0], "ann")))
            while standing[0] in controller.state.registrations:
                await asyncio.sleep(0)
            await controller.submit(ForgetHost("kiosk"))
            assert not subscribed.done()
            network.let.set()
            await asyncio.gather(subscribed, withdrawn)
            assert controller.network_failure is None
            assert not [rule for rule in network.rules.values() if rule is not None and rule.table == FORWARDING]

    asyncio.run(asyncio.wait_for(scenario(), 20))
