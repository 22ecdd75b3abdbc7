"""All who follow a shared log come to the same: with rules or without, from a snapshot or from the start.

What a gate that is behind has found of a filter changes nothing, either.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from pleroma.content import Integer, Schema
from pleroma.control import (
    AdoptPlan,
    Advance,
    ChangePlan,
    ChangePrincipal,
    CommandRefused,
    ControlState,
    CreatePrincipal,
    CreateSchema,
    Expire,
    RemovePrincipal,
    RemoveSchema,
    Withdraw,
)
from pleroma.control.kept_answers import KeptAnswers
from pleroma.control.log_fold import LogFold, log_body
from pleroma.control.state.command import Begin, ChooseTrees, ExtendSchema, Lead, Register, Rewire
from pleroma.control.state_snapshot import restore, snapshot
from pleroma.errors import PleromaError
from pleroma.index import EVERYTHING, NOTHING, GridIndex
from pleroma.routing import build
from support.control_cases import ANN, BEN, DIGEST, PAT, SMALL, SUE, TRAFFIC, WEATHER, boxes

NETWORK = build("ring:4")
WIDER = Schema("weather", (Integer("temperature", False, 0, 31), Integer("wind", False, 0, 7)))
LIMITS = {"weather": ("true", "wind < 4", "temperature > 3 or wind == 0"), "traffic": ("true", "speed < 9")}
WANTED = {
    "weather": (*LIMITS["weather"], "temperature < 2", "wind == 7", "temperature > 2 and temperature < 9 and wind < 2"),
    "traffic": (*LIMITS["traffic"], "speed == 3", "speed > 12"),
}
SCHEMAS = {"weather": WEATHER, "traffic": TRAFFIC}
people = st.sampled_from(("ann", "pat", "sue", "ben", "ben", "ben"))
schemas = st.sampled_from(sorted(SCHEMAS))
switches = st.sampled_from(sorted(NETWORK.switches))


@st.composite
def registers(draw):
    schema = draw(schemas)
    wanted = boxes(SCHEMAS[schema], draw(st.sampled_from(WANTED[schema])))
    kind, host = draw(st.sampled_from(("advertisement", "subscription"))), draw(st.sampled_from(NETWORK.hosts)).name
    return Register(kind, draw(people), host, schema, wanted, draw(st.none() | st.just("lease")))


@st.composite
def indexes(draw):
    schema = SCHEMAS[draw(schemas)]
    dimensions = draw(st.lists(st.sampled_from(schema.names), unique=True, min_size=1))
    return GridIndex.regular(schema, draw(st.integers(1, 7)), dimensions)


@st.composite
def rights(draw):
    schema = draw(schemas)
    limits = {schema: draw(st.none() | st.sampled_from(LIMITS[schema]))}
    return ChangePrincipal(draw(people), None, *draw(st.sampled_from([(limits, {}), ({}, limits), (limits, limits)])))


commands = st.one_of(
    *(registers() for _ in range(8)),
    *(rights() for _ in range(3)),
    st.builds(Withdraw, st.integers(7, 30).map(lambda n: f"s{n}"), people),
    st.builds(Expire, st.just("lease"), people),
    st.builds(lambda index: AdoptPlan(index.schema.name, index), indexes()),
    st.builds(
        lambda index, method: ChangePlan(index.schema.name, index, method),
        indexes(),
        st.sampled_from(("lightweight", "versioning")),
    ),
    *(st.builds(Advance, schemas, st.just(step)) for step in ("swap", "clear")),
    st.builds(lambda absent: Rewire(absent=tuple(absent)), st.lists(switches, max_size=1)),
    st.just(ChooseTrees("spread:2")),
    st.just(ExtendSchema(WIDER)),
    schemas.map(RemoveSchema),
    schemas.map(lambda name: CreateSchema(SCHEMAS[name])),
    people.map(RemovePrincipal),
    st.just(CreatePrincipal("sue", "both", DIGEST, {"*": "true"}, {"*": "wind < 1"})),
    st.sampled_from(("one", "two")).map(Lead),
)
keys = st.sampled_from((None,) * 6 + ("k", "l"))
leaderships = st.sampled_from((None,) * 4 + (0, 1))
steps = st.tuples(commands, st.integers(0, 6), keys, leaderships)
"""A command, how far the gate is behind that appends it, its key, and how far off its leadership is."""


class Follower:
    def __init__(self, share):
        self.share = share
        self.fold = LogFold(ControlState(NETWORK, SMALL, share), KeptAnswers())
        self.position = 0

    def follow(self, log, until):
        for position, body in enumerate(log[self.position : until], self.position + 1):
            self.result = self.fold.fold(position, body)
            self.position = position

    @property
    def snapshot(self):
        return snapshot(self.fold.state, self.fold.answers)

    def begin_anew(self, other):
        state, answers = restore(other.snapshot, NETWORK, SMALL, self.share)
        self.fold, self.position = LogFold(state, answers), other.position


def as_appended(gate, command):
    """What a gate adds that is so far behind; None if it refuses the command."""
    if gate.fold.state.check(command) is not None:
        return None
    if isinstance(command, Register):
        gate.fold.state.cover_beforehand(gate.position, command)
    return command


def outcome(follower):
    position, result = follower.result
    return position, str(result.error) if isinstance(result, CommandRefused) else result.value


@settings(max_examples=200, deadline=None)
@given(st.lists(steps, min_size=20, max_size=40), st.sets(st.integers(0, 24), max_size=3))
def test_all_who_follow_a_log_come_to_the_same(history, restarts):
    plain, whole, gate, behind = (Follower(share) for share in (EVERYTHING, EVERYTHING, NOTHING, NOTHING))
    first = [Begin(SMALL.to_json(), whole.fold.state.network), CreateSchema(WEATHER), CreateSchema(TRAFFIC)]
    told = [log_body(each) for each in (*first, ANN, PAT, SUE, BEN)]
    untold = list(told)
    for number, (command, lag, key, leadership) in enumerate(history):
        behind.follow(told, max(behind.position, len(told) - lag, 1))
        led = whole.fold.state.leadership + leadership if leadership is not None else None
        untold_body = log_body(command, key, led)
        try:
            appended = as_appended(behind, command)
        except PleromaError:  # it would not be appended
            appended = None
        if appended is None:
            continue
        told.append(log_body(appended, key, led))
        untold.append(untold_body)
        if isinstance(command, Register):
            object.__setattr__(command, "covered", None)
        plain.follow(untold, len(untold))
        whole.follow(told, len(told))
        gate.follow(told, len(told))
        assert outcome(whole) == outcome(gate) == outcome(plain)
        if number in restarts:
            gate.begin_anew(whole)
            behind.begin_anew(gate)
    for each in (plain, whole, gate, behind):
        each.follow(untold if each is plain else told, len(told))
    assert whole.snapshot == gate.snapshot == behind.snapshot == plain.snapshot
