"""Every interleaving of switches, publisher and packet on small trees, while the plan changes.

Switches carry out their part of a step at any time, the next step begins when all have; the publisher adopts the new
plan at any time after it was told; the event is sent at any time, and each of its copies moves on at any time. Whatever
the order, everybody who wants the event gets it once. That the model sees losses is shown by orders that have them.
"""

from dataclasses import dataclass

import pytest

from pleroma.content import Integer, Schema
from pleroma.content.filter_json import from_json
from pleroma.control import AdoptPlan, Advance, ChangePlan, CreateSchema
from pleroma.index import Dz, GridIndex, TreeIndex
from pleroma.index.tree_walk import LEAF
from pleroma.routing import AdmitOp, Change, DetourOp, FlowOp, build
from pleroma.switches.simulated.cables import Cables
from pleroma.switches.simulated.simulated_table import SimulatedTable
from support.control_cases import ANN, advertise, state_after, subscribe
from support.plan_change_cases import selective

SPACE = Schema("space", (Integer("x", False, 0, 3), Integer("y", False, 0, 3)))
EVENTS = [SPACE.event({"x": x, "y": y}) for x in range(4) for y in range(4)]
BY_X, BY_Y = GridIndex.regular(SPACE, 2, ["x"]), GridIndex.regular(SPACE, 2, ["y"])
FINE = GridIndex.regular(SPACE, 4)
SHIFTED = GridIndex(SPACE, (0,), {0: (2.5,)})
CORNER = selective(SPACE, {0: (0.0, 1.0), 1: (0.0, 1.0)})
PLANS = [(BY_X, BY_Y), (FINE, SHIFTED), (SHIFTED, CORNER), (CORNER, BY_X)]
QUARTERS = TreeIndex(SPACE, 4, (0, 1, LEAF, LEAF, 1, LEAF, LEAF), (2.0, 2.0, 2.0))
ONE_FINER = QUARTERS.regrown(Dz.parse("10"), TreeIndex(SPACE, 2, (1, 0, LEAF, LEAF, LEAF), (1.0, 3.0)))
OTHER_HALF = QUARTERS.regrown(Dz.parse("1"), TreeIndex(SPACE, 3, (1, LEAF, 0, LEAF, LEAF), (3.0, 3.0)))
TWO_PLACES = ONE_FINER.regrown(Dz.parse("01"), TreeIndex(SPACE, 2, (0, LEAF, LEAF), (1.0,)))
LOCAL = {
    "a part is finer": (QUARTERS, ONE_FINER, {"10"}),
    "a part is coarser": (ONE_FINER, QUARTERS, {"10"}),
    "a half is cut otherwise": (ONE_FINER, OTHER_HALF, {"1"}),
    "two parts": (TWO_PLACES, QUARTERS, {"01", "10"}),
}
TREES = {
    "line:2": [("h1", "true"), ("h2", "x < 2"), ("h1", "y == 3")],
    "line:3": [("h1", "x < 1"), ("h2", "y > 1"), ("h3", "x > 0 and y < 3")],
    "star:3": [("h1", "x == 3"), ("h2", "y < 2"), ("h3", "x < 2"), ("h3", "y == 3")],
}


@dataclass(frozen=True)
class Moment:
    """`applied` are the switches that have carried out the step; copies are where packets wait, and under which dz."""

    step: int
    applied: frozenset
    adopted: bool = False
    sent: bool | None = None  # None: not yet; else whether under the new plan
    copies: frozenset = frozenset()  # (line, dz): a tree has one way, so no two copies are alike unless one is wrong
    got: tuple = ()
    promised: frozenset = frozenset()


class Model:
    """`steps` are lists of operations; the new plan is told with step `told`, nobody needs the old one at `last`."""

    def __init__(self, topology, start, steps, told, last, promises):
        self.topology, self.cables = topology, Cables(topology)
        self.told, self.last, self.promises = told, last, promises
        self.switches = frozenset(topology.switches)
        self.ways = []
        parts = {s: (SimulatedTable(s, topology.limits.get(s)), frozenset()) for s in topology.switches}
        for ops in (start, *steps):
            parts = {s: self.carried_out(*parts[s], [op for op in ops if op.switch == s]) for s in parts}
            self.ways.append(parts)
        self.seen = set()

    @staticmethod
    def carried_out(table, admitted, ops):
        after = SimulatedTable(table.switch, table.capacity, table)
        after.bundle(DetourOp(table.switch, Change.ADD, flow) for flow in table.detours)
        after.bundle(op for op in ops if not isinstance(op, AdmitOp))
        admits = [op for op in ops if isinstance(op, AdmitOp)]
        admitted = admitted | {(op.port, op.dz) for op in admits if op.change is Change.ADD}
        return after, admitted - {(op.port, op.dz) for op in admits if op.change is Change.DELETE}

    def part(self, now, switch):
        return self.ways[now.step if switch in now.applied else now.step - 1][switch]

    def explore(self, host, old, new):
        """What is wrong at the end of any order of things."""
        number = [each.name for each in self.topology.hosts].index(host)
        self.uplink = self.cables.uplink(number)
        wrong = set()
        self.seen = set()
        todo = [Moment(0, self.switches)]
        while todo:
            now = todo.pop()
            if now in self.seen:
                continue
            self.seen.add(now)
            further = list(self.next(now, old, new))
            todo += further
            if not further:
                assert now.step == len(self.ways) - 1
                assert now.sent is not None
                lost = now.promised - set(now.got)
                twice = {each for each in now.got if now.got.count(each) > 1}
                wrong |= {("lost", each) for each in lost} | {("twice", each) for each in twice}
        return wrong

    def next(self, now, old, new):
        change = dict(vars(now))
        for switch in self.switches - now.applied:
            yield Moment(**change | {"applied": now.applied | {switch}})
        if now.applied == self.switches and now.step + 1 < len(self.ways):
            waits = now.step + 1 == self.last and (not now.adopted or (now.sent is False and now.copies))
            if not waits:
                yield Moment(**change | {"step": now.step + 1, "applied": frozenset()})
        if not now.adopted and now.step >= self.told:
            yield Moment(**change | {"adopted": True})
        if now.sent is None:
            copies = frozenset({(self.uplink, new if now.adopted else old, ())})
            promised = self.promises(now.step if now.applied == self.switches else now.step - 1)
            yield Moment(**change | {"sent": now.adopted, "copies": copies, "promised": promised})
        for copy in now.copies:
            yield self.moved(now, change, copy)

    def moved(self, now, change, copy):
        line, dz, path = copy
        copies, got = now.copies - {copy}, now.got
        host = self.cables.host_behind(line)
        if host is not None:
            return Moment(**change | {"copies": copies, "got": tuple(sorted((*got, host.name)))})
        arrived = self.cables.lines[line]
        table, admitted = self.part(now, arrived.target)
        let_in = line != self.uplink or any(p == arrived.target_port and cell.covers(dz) for p, cell in admitted)
        flow = table.lookup(dz) if let_in else None
        if flow is not None:
            path = self.cables.further(path, line, dz)  # raises when it comes by twice
            copies |= {(each.line, dz, path) for each in self.cables.departures(line, flow)}
        return Moment(**change | {"copies": copies, "got": got})


def world(shape, old, limit=None, members=None):
    """Everybody publishes everything, and wants something."""
    topology = build(shape).with_limit(limit)
    interests = TREES[shape]
    hosts = [each.name for each in topology.hosts]
    wants = [subscribe("ann", text, host, SPACE) for host, text in interests]
    commands = [CreateSchema(SPACE), ANN, AdoptPlan("space", old, members=members)]
    commands += [advertise("ann", "true", host, SPACE) for host in hosts] + wants
    return topology, state_after(*commands, topology=topology), wants


def wanted(wants, host, event):
    return frozenset(w.host for w in wants if w.host != host and from_json(SPACE, w.filter).matches(event))


def address(prefix, index, event):
    (dz,) = index.dzs(event)
    return prefix.then(dz)


def outcomes(shape, old, new, make_steps, limit=None, members=None):
    """All that goes wrong, for every publisher and every event; `members` is the limit of the old plan."""
    topology, state, wants = world(shape, old, limit, members)
    start, before = state.rules.everything(), state.schemas["space"].prefix
    steps, told, last, later = make_steps(state, new)
    after = state.schemas["space"].prefix
    wrong, moments = set(), 0
    for host in sorted({each.name for each in topology.hosts}):
        for event in EVENTS:
            always = wanted(wants, host, event)
            from_then = wanted(later.get("comes", ()), host, event)
            confirmed = later.get("at", 0)

            def promises(step, always=always, from_then=from_then, confirmed=confirmed):
                return always | from_then if step >= confirmed else always

            model = Model(topology, start, steps, told, last, promises)
            wrong |= model.explore(host, address(before, old, event), address(after, new, event))
            moments += len(model.seen)
    return wrong, moments


def by_steps(method, *between, members=None):
    """The steps as they are decided, with other requests between the first and the second."""

    def make(state, new):
        steps = [_ops(state, ChangePlan("space", new, method, members=members))]
        steps += [_ops(state, command) for command in between]
        steps += [_ops(state, Advance("space", "swap")), _ops(state, Advance("space", "clear"))]
        return steps, len(steps) - 1, len(steps), {"comes": between, "at": 1 + len(between)}

    return make


def _ops(state, command):
    result = state.apply(100 + len(state.registrations), command)
    return result.switch_ops


def at_once(state, new):
    """Rules are exchanged, publishers are told: no care is taken."""
    return [_ops(state, AdoptPlan("space", new))], 1, 99, {}


def removing_first(state, new):
    """Old rules are removed; when they are gone, new ones are added; then publishers are told."""
    tables = {s: list(table) for s, table in state.router.tables.items()}
    ops = _ops(state, AdoptPlan("space", new))
    admits = [op for op in ops if isinstance(op, AdmitOp) and op.change is Change.ADD]
    gone = [FlowOp(s, Change.DELETE, flow) for s, table in tables.items() for flow in table]
    come = [FlowOp(s, Change.ADD, flow) for s, table in state.router.tables.items() for flow in table]
    return [[*admits, *gone], come], 2, 99, {}


@pytest.mark.parametrize("shape", TREES)
@pytest.mark.parametrize("method", ["lightweight", "versioning"])
@pytest.mark.parametrize("plans", PLANS, ids=["x to y", "fine to shifted", "shifted to corner", "corner to x"])
def test_no_order_of_things_loses_or_doubles_an_event(shape, method, plans):
    wrong, moments = outcomes(shape, *plans, by_steps(method))
    assert not wrong
    assert moments > 1000


@pytest.mark.parametrize("shape", TREES)
@pytest.mark.parametrize("method", ["lightweight", "versioning"])
@pytest.mark.parametrize("plans", LOCAL.values(), ids=LOCAL)
def test_nor_does_it_when_only_a_part_of_a_tree_changes(shape, method, plans):
    *trees, area = plans

    def in_that_part(state, new):
        made = by_steps(method)(state, new)
        detours = {op.flow.dz for op in made[0][0] if isinstance(op, DetourOp)}
        prefix = state.schemas["space"].prefix
        assert detours == ({prefix.then(Dz.parse(bits)) for bits in area} if method == "lightweight" else set())
        return made

    wrong, moments = outcomes(shape, *trees, in_that_part)
    assert not wrong
    assert moments > 1000


@pytest.mark.parametrize("method", ["lightweight", "versioning"])
@pytest.mark.parametrize("text", ["y > 0", "x == 2", "x < 2"])
def test_who_subscribes_while_a_part_changes_is_served_as_well(method, text):
    wrong, _ = outcomes("line:3", QUARTERS, TWO_PLACES, by_steps(method, subscribe("ann", text, "h2", SPACE)))
    assert not wrong


def to_members(members):
    """The one step to another limit, which publishers are told of at any time."""

    def make(state, new):
        return [_ops(state, ChangePlan("space", new, members=members))], 1, 99, {}

    return make


LIMITS = [(1, 4), (4, 1), (2, 3)]


@pytest.mark.parametrize("shape", TREES)
@pytest.mark.parametrize(("before", "after"), LIMITS)
@pytest.mark.parametrize("index", [FINE, CORNER, ONE_FINER], ids=["grid", "rectangles", "tree"])
def test_another_limit_alone_takes_one_step_and_loses_nothing(shape, before, after, index):
    wrong, _ = outcomes(shape, index, index, to_members(after), members=before)
    assert not wrong


@pytest.mark.parametrize("method", ["lightweight", "versioning"])
@pytest.mark.parametrize(("before", "after"), LIMITS)
@pytest.mark.parametrize(
    "plans",
    [PLANS[0], *(each[:2] for each in LOCAL.values())],
    ids=["everywhere", *LOCAL],
)
def test_another_limit_together_with_another_index_loses_nothing(method, before, after, plans):
    comes = subscribe("ann", "x > 0 and y < 3", "h2", SPACE)
    for between in ([], [comes]):
        wrong, moments = outcomes("line:3", *plans, by_steps(method, *between, members=after), members=before)
        assert not wrong
        assert moments > 1000


def test_a_part_that_changes_with_the_limit_has_detours_in_that_part_alone():
    _, state, _ = world("line:3", QUARTERS, members=1)
    ops = _ops(state, ChangePlan("space", TWO_PLACES, members=3))
    prefix = state.schemas["space"].prefix
    assert {op.flow.dz for op in ops if isinstance(op, DetourOp)} == {
        prefix.then(Dz.parse(bits)) for bits in ("01", "10")
    }


def test_detours_of_another_part_do_lose_events():
    def elsewhere(state, new):
        steps, told, last, later = by_steps("lightweight")(state, new)
        wrong_place = {state.schemas["space"].prefix.then(Dz.parse("10"))}
        kept = [[op for op in step if not isinstance(op, DetourOp) or op.flow.dz in wrong_place] for step in steps]
        return kept, told, last, later

    wrong, _ = outcomes("line:3", QUARTERS, TWO_PLACES, elsewhere)
    assert any(kind == "lost" for kind, _ in wrong)


@pytest.mark.parametrize("method", ["lightweight", "versioning"])
def test_who_subscribes_in_between_is_served_from_the_answer_on(method):
    comes = subscribe("ann", "y > 0", "h2", SPACE)
    wrong, _ = outcomes("line:3", BY_X, BY_Y, by_steps(method, comes))
    assert not wrong


def test_tables_that_are_full_make_room_for_the_detour():
    wrong, _ = outcomes("line:3", FINE, BY_Y, by_steps("lightweight"), limit=2)
    assert not wrong


@pytest.mark.parametrize("order", [at_once, removing_first])
@pytest.mark.parametrize("shape", TREES)
def test_naive_orders_do_lose_events(shape, order):
    wrong, _ = outcomes(shape, BY_X, BY_Y, order)
    assert any(kind == "lost" for kind, _ in wrong)


def test_going_on_before_the_publisher_has_adopted_the_plan_does_lose_events():
    def hasty(state, new):
        steps, told, _, later = by_steps("lightweight")(state, new)
        return steps, told, 99, later

    wrong, _ = outcomes("line:3", BY_X, BY_Y, hasty)
    assert any(kind == "lost" for kind, _ in wrong)
