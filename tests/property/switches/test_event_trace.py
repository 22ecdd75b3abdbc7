"""Traces against the simulated network: whoever a trace says is reached gets the event, in every phase of a change.

An event is sent by the plan in force, and while the plan changes by the other plan too, from every host. A host that
may not send it sends nothing.
"""

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pleroma.content.filter_json import to_json
from pleroma.control import Advance, ChangePlan, ControlState, CreateSchema, Done, Register
from pleroma.control.state.command import ChooseTrees
from pleroma.routing import AdmitOp, Presence, build
from pleroma.service.http.tracing.traced_event import EventTracer
from pleroma.switches import EmbeddedNetwork, Packet
from pleroma.switches.tracing.event_trace import on_the_wire
from pleroma.switches.tracing.meeting import SwitchStanding
from support.control_cases import ANN, SMALL, WEATHER
from support.plan_change_cases import indices
from support.strategies import filters

RING = build("ring:4")
HOSTS = [host.name for host in RING.hosts]
events = st.builds(lambda t, w: WEATHER.event({"temperature": t, "wind": w}), st.integers(0, 15), st.integers(0, 7))


class Plane:
    """A network that is all there, and of which nothing is confirmed."""

    forwards_by_rules = True

    def topology(self):
        return RING

    def presence(self):
        return Presence()

    def standing(self, *_):
        return SwitchStanding("ready", None)


class Simulated:
    """A network that does as it is told, and lets in what it is told to let in."""

    def __init__(self, topology):
        self.network = EmbeddedNetwork(topology)
        self.admitted = set()

    def take(self, ops):
        for op in ops:
            if isinstance(op, AdmitOp):
                self.admitted ^= {(op.switch, op.port, op.dz)}
        done = self.network.install((op for op in ops if not isinstance(op, AdmitOp)), atomic=True)
        assert done.complete

    def receivers(self, host, dz):
        place, event = RING.host[host], on_the_wire(dz)
        cells = [cell for switch, port, cell in self.admitted if (switch, port) == (place.switch, place.port)]
        if not any(cell.covers(event) for cell in cells):
            return Counter()
        self.network.publish(host, Packet(event))
        return Counter(delivery.host for delivery in self.network.run())


@st.composite
def registers(draw):
    wanted = draw(filters(WEATHER, 2).filter(bool))
    kind = draw(st.sampled_from(["advertisement", "subscription"]))
    return Register(kind, "ann", draw(st.sampled_from(HOSTS)), "weather", to_json(wanted))


@given(
    commands=st.lists(registers(), min_size=1, max_size=6),
    index=indices(WEATHER),
    method=st.sampled_from(["lightweight", "versioning"]),
    late=registers(),
    sent=st.lists(events, min_size=1, max_size=4),
    tables=st.sampled_from([("single", None), ("single", 3), ("forest", None)]),
)
def test_the_traced_receivers_are_those_that_get_the_event(commands, index, method, late, sent, tables):
    trees, limit = tables
    topology = RING.with_limit(limit)
    state, network, position = ControlState(topology, SMALL), Simulated(topology), 0

    def do(command):
        nonlocal position
        position += 1
        done = state.apply(position, command)
        assert isinstance(done, Done), done
        network.take(done.switch_ops)

    def check(plans):
        for host in HOSTS:
            for event in sent:
                tracer = EventTracer(state, Plane(), live=False)
                traced = asyncio.run(tracer.by_all_plans(state.schemas["weather"], event, host))
                assert len(traced) == plans
                for plan in traced:
                    for way in plan.ways:
                        assert Counter(way.trace.receivers) == network.receivers(host, way.trace.dz)

    for command in (ChooseTrees(trees), CreateSchema(WEATHER), ANN, *commands):
        do(command)
    check(1)
    do(ChangePlan("weather", index, method))
    if state.plans.change is None:
        check(1)  # the plan is as it was
        return
    check(2)
    do(late)
    check(2)
    before = state.schemas["weather"].epoch
    other = state.plans.change.other_plan
    do(Advance("weather", "swap"))
    check(2)
    assert state.schemas["weather"].epoch == other.epoch
    assert state.plans.change.other_plan.epoch == before
    do(Advance("weather", "clear"))
    check(1)
