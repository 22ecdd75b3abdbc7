"""Steps of a trace against what is wanted: each mark has a case here that deserves it and one that does not."""

from dataclasses import replace

import pytest

from pleroma.index import Dz, DzSet
from pleroma.routing import Flow, FlowTable, Output, Port, Presence, Router, Subscribe, build
from pleroma.routing.admission import Admissions
from pleroma.routing.request import Advertise
from pleroma.switches.tracing.event_trace import Wires, on_the_wire, trace
from pleroma.switches.tracing.examined_step import examine
from pleroma.switches.tracing.meeting import Meeting, MetRule, SwitchStanding, TracedTables
from pleroma.switches.tracing.wanted_rules import wanted_rules

PAIR = build("line:2")
FIRST, SECOND = PAIR.switches
HERE, THERE = PAIR.host["h1"], PAIR.host["h2"]
EVENT = Dz.parse("0101")
LINK = next(port for port, _, _, _ in PAIR.neighbours[FIRST])


def made(rules=(), detours=(), admitted=("0",)):
    flows = [
        [Flow(Dz.parse(bits), tuple(Output(Port(p)) for p in ports)) for bits, *ports in x] for x in (rules, detours)
    ]
    return TracedTables(FlowTable(flows[0]), FlowTable(flows[1]), {HERE.port: {Dz.parse(bits) for bits in admitted}})


WANTED = made([("01", LINK)])


def examined(found, wanted=WANTED, *, live=True, silent=False, state="ready", confirmed="found", refused=()):
    """The first step through the rules found, compared with those wanted."""
    rules = {FIRST: wanted if silent else found, SECOND: made(admitted=())}
    step = trace(Wires(PAIR, Presence()), rules, "h1", EVENT).steps[0]
    met = found.meet(HERE.port, on_the_wire(EVENT)) if confirmed == "found" else confirmed
    known = SwitchStanding(state, met, refused)
    return examine(step, on_the_wire(EVENT), wanted, known, None if silent else found, live=live)


def kinds(step):
    return [difference.kind for difference in step.differences]


def test_rules_as_they_are_wanted_have_no_marks():
    step = examined(made([("01", LINK)]))
    assert (step.standing, step.refusal, step.needless, step.dropped, step.differences) == (
        "confirmed",
        None,
        None,
        None,
        (),
    )


@pytest.mark.parametrize(
    ("found", "marks", "dropped"),
    [
        (made([]), ["rule_missing"], "rule_missing"),
        (made([("0", LINK)]), ["rule_missing", "rule_unwanted"], None),
        (made([("01", 9)]), ["rule_changed"], None),
        (made([("01",)]), ["rule_changed"], "nobody_behind"),
        (made([("01", HERE.port)]), ["rule_changed"], "only_back"),
        (made([("01", LINK), ("0101", 9)]), ["rule_unwanted"], None),
        (made([("01", LINK)], [("0", 9)]), ["rule_unwanted"], None),
        (made([("01", LINK)], admitted=()), ["rule_missing"], "not_admitted"),
        (made([("01", LINK)], admitted=("0", "010")), ["rule_unwanted"], None),
        (made([("01", LINK), ("1", 9)], admitted=("0", "1")), [], None),  # not for this event
    ],
)
def test_what_differs_is_named(found, marks, dropped):
    step = examined(found)
    assert sorted(kinds(step)) == sorted(marks)
    assert step.dropped == dropped


def test_differences_are_looked_for_in_rules_that_were_read_only():
    assert examined(made([]), live=False).differences == ()


def test_the_text_of_a_difference_says_which_rule_and_what_of_it():
    said = [difference.text for difference in examined(made([("0", LINK)])).differences]
    assert said == ["the rule 01 is not on the switch", "nobody wants the rule 0, which the event meets"]
    (changed,) = examined(made([("01", 9)])).differences
    assert changed.text == f"the rule 01 leads to ports 9, not to ports {LINK}"
    (emptied,) = examined(made([("01",)])).differences
    assert emptied.text == f"the rule 01 leads to no port, not to ports {LINK}"
    (refused,) = examined(made([("01", LINK)], admitted=())).differences
    assert refused.text == "the admission of 0 is not on the switch"
    detoured = made([("01", LINK)], [("0", LINK)])
    (missing,) = examined(made([("01", LINK)]), detoured).differences
    assert missing.text == "the detour 0 is not on the switch"


def test_a_switch_that_does_not_answer_is_marked_and_followed_by_the_rules_wanted():
    step = examined(made([]), silent=True)
    assert kinds(step) == ["not_answering"]
    assert step.dropped is None


def test_a_switch_that_has_confirmed_something_else_is_behind_or_refuses():
    nothing = Meeting(MetRule("cell", Dz.parse("0")))
    right = made([("01", LINK)])
    assert examined(right, confirmed=nothing, live=False).standing == "behind"
    assert examined(right, confirmed=None, live=False).standing == "behind"
    refused = examined(right, confirmed=nothing, live=False, refused=("full", "odd"))
    assert (refused.standing, refused.refusal) == ("refused", "full; odd")
    assert examined(right, live=False, refused=("another rule is too long",)).standing == "confirmed"
    for state in ("reading", "away", "gone"):
        assert examined(right, live=False, state=state).standing == state


def test_without_a_rule_nobody_behind_wants_it():
    assert examined(made([]), made([]), live=False).dropped == "nobody_behind"


class Foreign:
    """Rules in front of which stand some of somebody else's."""

    def __init__(self, rules, meeting):
        self.rules, self.meeting = rules, meeting

    def meet(self, *_):
        return self.meeting

    def find(self, *wanted):
        return self.rules.find(*wanted)

    def forwarding(self):
        return self.rules.forwarding()


class Changed(Foreign):
    """A rule that was changed where its outputs do not show it."""

    def find(self, in_port, kind, dz):
        there = self.rules.find(in_port, kind, dz)
        return replace(there, text="it sends to 2 as fd00::9") if kind == "rule" else there


def test_a_change_that_outputs_do_not_show_is_told_in_words():
    (changed,) = examined(Changed(WANTED, WANTED.meet(HERE.port, on_the_wire(EVENT)))).differences
    assert changed == ("rule_changed", "the rule 01 was changed: it sends to 2 as fd00::9")


STRANGE = MetRule("foreign", text="theirs")


@pytest.mark.parametrize(
    ("meeting", "marks", "dropped"),
    [
        (Meeting(STRANGE, STRANGE), ["foreign_rule"], "foreign_rule"),
        (Meeting(STRANGE, STRANGE, is_clear=False), ["foreign_rule"], None),
        (Meeting(STRANGE, STRANGE, (Output(LINK),)), ["foreign_rule"], None),
        (Meeting(MetRule("cell", Dz.parse("0")), STRANGE), ["foreign_rule"], "foreign_rule"),
        (replace(WANTED.meet(HERE.port, on_the_wire(EVENT)), in_front=(STRANGE,)), ["foreign_rule_may_match"], None),
    ],
)
def test_rules_of_somebody_else_are_named(meeting, marks, dropped):
    step = examined(Foreign(WANTED, meeting))
    assert (kinds(step), step.dropped) == (marks, dropped)
    assert all("theirs" in difference.text for difference in step.differences)


def coarse_tables(limit):
    topology = build("line:3").with_limit(limit)
    router = Router(topology)
    router.apply(Advertise("a", topology.hosts[0].name, DzSet.parse("0", "1")))
    router.apply(Subscribe("x", topology.hosts[1].name, DzSet.parse("000")))
    router.apply(Subscribe("y", topology.hosts[2].name, DzSet.parse("001", "1")))
    admissions = Admissions()
    admissions.add(topology.hosts[0].name, DzSet.parse("0", "1"))
    return topology, wanted_rules(topology, router, Router(topology), admissions)


def needless_of(limit, bits):
    topology, wanted = coarse_tables(limit)
    event = Dz.parse(bits)
    steps = trace(Wires(topology, Presence()), wanted, "h1", event).steps
    known = SwitchStanding("ready", None)
    return {
        step.switch: examine(step, on_the_wire(event), wanted[step.switch], known, None, live=False).needless
        for step in steps
    }


def test_a_rule_that_is_coarser_for_want_of_room_is_named_with_its_needless_ports():
    roomy, tight = needless_of(None, "01"), needless_of(1, "01")
    assert set(roomy.values()) == {None}
    middle = build("line:3").switches[1]
    assert tight[middle] is not None
    assert len(tight[middle]) == 2
    assert needless_of(1, "000")[middle] is not None
    assert len(needless_of(1, "000")[middle]) == 1
