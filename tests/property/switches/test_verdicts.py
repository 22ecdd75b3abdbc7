"""The verdict of a trace: whoever gets an event is said to, and a cause that is taken away is a cause no more."""

import asyncio
from random import Random

from hypothesis import event as noted
from hypothesis import given
from hypothesis import strategies as st

from pleroma.content import Filter
from pleroma.content.filter_json import to_json
from pleroma.control import ControlState, CreateSchema, Done, Register
from pleroma.control.state.command import Rewire
from pleroma.routing import Presence, build
from pleroma.service.http.tracing.edge_explanation import ComparedRegistrations
from pleroma.service.http.tracing.traced_event import EventTracer
from pleroma.service.http.tracing.verdict import EventJudge
from pleroma.switches.tracing.event_trace import on_the_wire
from pleroma.switches.tracing.meeting import SwitchStanding
from pleroma.switches.tracing.wanted_rules import wanted_rules
from support.control_cases import ANN, SMALL, WEATHER
from support.routing_oracle import walk

RING = build("ring:4")
HOSTS = [host.name for host in RING.hosts]
PLACES = sorted({(host.switch, host.port) for host in RING.hosts} | {end for link in RING.links for end in link.ends})
EVERYTHING = to_json(Filter.parse(WEATHER, "true"))


class Plane:
    """Switches that have confirmed whatever is wanted."""

    forwards_by_rules = True

    def __init__(self, state, presence):
        self._state, self._presence = state, presence

    def topology(self):
        return self._state.topology

    def presence(self):
        return self._presence

    def standing(self, switch, in_port, event):
        rules = self._state.rules
        wanted = wanted_rules(self.topology(), rules.router, rules.detours, rules.admissions)
        return SwitchStanding("ready", wanted[switch].meet(in_port, event))


def some_filter(rng):
    low = rng.randrange(12)
    texts = ["true", f"temperature between {low} and {low + 3}", f"wind < {rng.randrange(1, 8)}", "temperature < 9"]
    return Filter.parse(WEATHER, rng.choice(texts))


def situation(rng):
    """A network of which a part may be away, with small tables or not, and registrations."""
    limit = rng.choice((None, None, 2))
    absent = set(rng.sample(RING.switches, rng.choice((0, 0, 1))))
    down = set(rng.sample(PLACES, rng.choice((0, 0, 1, 3))))
    kinds = ("advertisement", "subscription")
    made = [(rng.choice(kinds), rng.choice(HOSTS), some_filter(rng)) for _ in range(rng.randrange(1, 9))]
    return limit, absent, down, made


def fold(limit, absent, down, registered):
    state = ControlState(RING.with_limit(limit), SMALL)
    commands = [CreateSchema(WEATHER), ANN, Rewire(tuple(sorted(absent)), tuple(sorted(down)))]
    for kind, host, wanted in registered:
        boxes = EVERYTHING if wanted is None else to_json(wanted)
        commands.append(Register(kind, "ann", host, "weather", boxes))
    assert all(isinstance(state.apply(number, each), Done) for number, each in enumerate(commands, 1))
    return state, Presence(absent, down)


def judged(situation, event, sender, to):
    state, presence = fold(*situation)
    plane = Plane(state, presence)
    compared = ComparedRegistrations.of(state.registrations.values(), event)
    tracer = EventTracer(state, plane, live=False)
    plans = asyncio.run(tracer.by_all_plans(state.schemas["weather"], event, sender))
    judge = EventJudge(sender, compared, plane.topology(), presence, live=False)
    (verdict,) = judge.verdicts(plans, to)
    return verdict.reason.cause, reached(state, presence, event, sender)


def reached(state, presence, event, sender):
    """Who gets the event, by walking through the tables by hand."""
    entry, there = state.schemas["weather"], presence.of(state.topology)
    found = set()
    for dz in entry.index.dzs(event):
        whole = on_the_wire(entry.prefix.then(dz))
        if sender in there.host and any(cell.covers(whole) for cell in state.rules.admissions.of(sender)):
            found.update(host for host, _ in walk(there, state.router.tables, sender, whole))
    return found


@given(st.integers(0, 10**6))
def test_who_gets_an_event_is_said_to_and_a_cause_that_is_taken_away_is_one_no_more(seed):
    rng = Random(seed)
    drawn = situation(rng)
    event = WEATHER.event({"temperature": rng.randrange(16), "wind": rng.randrange(8)})
    sender = rng.choice(HOSTS)
    for to in HOSTS:
        check_verdict(drawn, event, sender, to)


def check_verdict(situation, event, sender, to):
    limit, absent, down, registered = situation
    cause, receivers = judged(situation, event, sender, to)
    noted(cause)
    wanted = [each for kind, host, each in registered if (kind, host) == ("subscription", to)]
    is_wanted = any(each.matches(event) for each in wanted)
    assert (to in receivers) == (cause == "delivered" or cause.startswith("waste_"))
    assert cause != "delivered" or is_wanted
    everywhere = [*registered, ("advertisement", sender, None)]
    match cause:
        case "not_advertised" | "not_advertised_here":
            other, _ = judged((limit, absent, down, everywhere), event, sender, to)
            assert other not in ("not_advertised", "not_advertised_here")
            others = [each for kind, _, each in registered if kind == "advertisement" and each.matches(event)]
            assert bool(others) == (cause == "not_advertised_here")
        case "sender_away" | "host_away" | "cut_off":
            assert absent or down
            assert judged((limit, set(), set(), everywhere), event, sender, to)[0] in ("delivered", "same_host")
        case "not_subscribed":
            assert not wanted
        case "not_matched":
            assert wanted
            assert not is_wanted
        case "same_host":
            assert sender == to
        case "waste_coarser_rule":
            assert to not in judged((None, absent, down, registered), event, sender, to)[1]
        case "waste_index":
            assert wanted
            assert not is_wanted
        case _:
            assert cause == "delivered"
