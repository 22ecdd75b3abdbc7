"""Changes of plans against a plain model: any requests between any steps, restarts of any kind, tables with limits."""

import json
from collections import defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from control_cases import ANN, BEN, SMALL, TRAFFIC, WEATHER
from pleroma.content import Schema
from pleroma.content.filter_json import to_json
from pleroma.control import (
    AdoptPlan,
    Advance,
    ChangePlan,
    ControlState,
    CreateSchema,
    Done,
    Expire,
    Refused,
    Register,
    Withdraw,
    command_from_json,
)
from pleroma.control.answers import Answers
from pleroma.control.command import written
from pleroma.control.snapshot import restore, snapshot
from pleroma.index import DzSet
from pleroma.routing import build
from strategies import filters
from transition_cases import Mirror, as_request, indices, region, tables_of

RING = build("ring:4")
SCHEMAS = {"weather": WEATHER, "traffic": TRAFFIC}
FURTHER = [Schema(name, WEATHER.attributes) for name in ("third", "fourth")]
hosts = st.sampled_from([host.name for host in RING.hosts])
schemas = st.sampled_from([WEATHER, TRAFFIC])
methods = st.sampled_from(["lightweight", "versioning"])
leases = st.none() | st.sampled_from(["one", "two"])


@st.composite
def registers(draw):
    schema = draw(schemas)
    wanted = draw(filters(schema, 2).filter(bool))
    kind = draw(st.sampled_from(["advertisement", "subscription"]))
    return Register(kind, "ann", draw(hosts), schema.name, to_json(wanted), draw(leases))


@st.composite
def plans(draw, kind):
    schema = draw(schemas)
    index = draw(indices(schema))
    return kind(schema.name, index, draw(methods)) if kind is ChangePlan else kind(schema.name, index)


class ChangesAgainstModel(RuleBasedStateMachine):
    @initialize(limit=st.none() | st.integers(2, 8), commands=st.lists(registers(), max_size=6))
    def begin(self, limit, commands):
        self.topology = RING.with_limit(limit)
        self.state = ControlState(self.topology, SMALL)
        self.mirror = Mirror(self.topology)
        self.log = []
        self.registered = {}
        self.index = {}  # by schema, of the plan in force
        self.prefix = {}
        self.change = None  # schema, method, phase, the other index, the other prefix, who has another region
        for command in (CreateSchema(WEATHER), CreateSchema(TRAFFIC), ANN, BEN):
            self.do(command)
        for name, entry in self.state.schemas.items():
            self.index[name], self.prefix[name] = entry.index, entry.prefix
        for command in commands:
            self.register(command)

    def do(self, command):
        self.log.append(written(command))
        foretold = self.state.check(command)
        result = self.state.apply(len(self.log), command)
        assert (foretold is None) == isinstance(result, Done), result
        if isinstance(result, Refused):
            return None
        self.mirror.take(result.all)
        return result

    @rule(command=registers())
    def register(self, command):
        made = self.do(command).value
        self.registered[made["id"]] = command
        change = self.change
        if change is None or change["schema"] != command.schema:
            return
        if change["method"] == "versioning" or change["phase"] == "prepared":
            change["double"].add(made["id"])

    @precondition(lambda self: self.registered)
    @rule(data=st.data())
    def withdraw(self, data):
        gone = data.draw(st.sampled_from(sorted(self.registered)))
        assert self.do(Withdraw(gone, "ann"))
        del self.registered[gone]

    @rule(lease=st.sampled_from(["one", "two"]))
    def expire(self, lease):
        gone = [each for each, command in self.registered.items() if command.lease == lease]
        assert (self.do(Expire(lease, "ann")) is not None) == bool(gone)
        for each in gone:
            del self.registered[each]

    @rule(schema=st.sampled_from(FURTHER))
    def create_a_schema(self, schema):
        """It never gets a prefix under which events of another still travel."""
        made = self.do(CreateSchema(schema))
        if made is not None:
            entry = self.state.schemas[schema.name]
            taken = [*self.prefix.values(), *([self.change["prefix"]] if self.change else [])]
            assert entry.prefix not in taken
            self.index[schema.name], self.prefix[schema.name] = entry.index, entry.prefix

    @rule(command=plans(AdoptPlan))
    def adopt_at_once(self, command):
        made = self.do(command)
        assert (made is None) == (self.change is not None)
        if made is not None:
            self.index[command.schema] = command.index

    @rule(command=plans(ChangePlan))
    def begin_a_change(self, command):
        before = self.state.schemas[command.schema].epoch
        same = self.state.schemas[command.schema].index.to_json() == command.index.to_json()
        made = self.do(command)
        assert self.state.schemas[command.schema].epoch == before
        if self.change is not None:
            assert made is None
        elif made is None:
            assert command.method == "versioning" or min(self.topology.limits.values()) < 2
            assert command.method != "versioning" or len(self.state.schemas) > 2
        elif same:
            assert made.all == []
        else:
            mine = {each for each, other in self.registered.items() if other.schema == command.schema}
            self.change = {
                "schema": command.schema,
                "method": command.method,
                "phase": "prepared",
                "index": command.index,
                "prefix": self.state.plans.changing.prefix,
                "double": mine,
            }
            own = self.prefix[command.schema]
            assert (self.change["prefix"] == own) == (command.method == "lightweight")
            assert command.method == "lightweight" or self.change["prefix"] not in self.prefix.values()

    @rule(command=plans(ChangePlan))
    def the_same_again_is_free(self, command):
        index = self.state.schemas[command.schema].index
        if self.change is None:
            epoch = self.state.schemas[command.schema].epoch
            made = self.do(ChangePlan(command.schema, index, "lightweight"))
            assert made.value == {"schema": command.schema, "epoch": epoch, "unchanged": True}
            assert made.all == []
            assert self.state.plans.changing is None

    @rule(step=st.sampled_from(["swap", "clear", "hop"]), schema=schemas)
    def advance(self, step, schema):
        """Also where there is nothing to advance."""
        expected = self.change is not None and self.change["schema"] == schema.name
        expected = expected and {"swap": "prepared", "clear": "swapped"}.get(step) == self.change["phase"]
        epoch = self.state.schemas[schema.name].epoch
        made = self.do(Advance(schema.name, step))
        assert (made is not None) == expected
        if made is None:
            return
        if step == "swap":
            name, change = schema.name, self.change
            self.index[name], change["index"] = change["index"], self.index[name]
            self.prefix[name], change["prefix"] = change["prefix"], self.prefix[name]
            change["phase"] = "swapped"
            assert self.state.schemas[name].epoch == epoch + 1
        else:
            self.change = None

    @precondition(lambda self: self.change is not None)
    @rule()
    def take_the_next_step(self):
        step = "swap" if self.change["phase"] == "prepared" else "clear"
        self.advance(step, SCHEMAS[self.change["schema"]])

    @rule()
    def replay_the_log(self):
        again = ControlState(self.topology, SMALL)
        for position, text in enumerate(self.log, 1):
            again.apply(position, command_from_json(json.loads(text)))
        self.is_the_same(again)

    @rule()
    def go_on_from_a_snapshot(self):
        again, _ = restore(snapshot(self.state, Answers()), self.topology, SMALL)
        self.is_the_same(again)
        self.state = again

    def is_the_same(self, other):
        assert snapshot(other, Answers()) == snapshot(self.state, Answers())
        assert other.rules.changing == self.state.rules.changing
        anew = Mirror(self.topology)
        anew.take(other.rules.everything())
        assert anew.rules() == self.mirror.rules()
        assert anew.detours() == self.mirror.detours()
        assert anew.admitted == self.mirror.admitted

    def others(self):
        if self.change is None:
            return {}
        index, prefix = self.change["index"], self.change["prefix"]
        mine = {each: command for each, command in self.registered.items() if each in self.change["double"]}
        return {each: region(index, prefix, command, SCHEMAS[command.schema]) for each, command in mine.items()}

    @invariant()
    def rules_follow_from_the_registrations(self):
        if not hasattr(self, "state"):
            return
        wanted = {}
        for each, command in self.registered.items():
            name = command.schema
            wanted[each] = region(self.index[name], self.prefix[name], command, SCHEMAS[name])
            assert self.state.registrations[each].region == wanted[each]
        requests = [as_request(command, each, wanted[each]) for each, command in self.registered.items()]
        others = self.others()
        topology = self.topology
        if self.change is not None and self.change["method"] == "versioning":
            requests += [as_request(self.registered[each], f"{each}'", area) for each, area in others.items()]
        if self.change is not None and self.change["method"] == "lightweight" and topology.limits:
            topology = topology.with_limit(next(iter(topology.limits.values())) - 1)
        families = self.state.router.families
        assert tables_of(topology, families, requests, SMALL.max_length) == self.mirror.rules()
        self.only_what_is_advertised_is_let_in(wanted, others)

    def only_what_is_advertised_is_let_in(self, wanted, others):
        regions = defaultdict(list)
        for each, command in self.registered.items():
            if command.kind == "advertisement":
                regions[command.host] += [*wanted[each], *others.get(each, ())]
        outermost = set()
        for host, cells in regions.items():
            place = self.topology.host[host]
            kept = [dz for dz in cells if not any(other != dz and other.covers(dz) for other in cells)]
            outermost |= {(place.switch, place.port, dz) for dz in kept}
        assert self.mirror.admitted == outermost

    @invariant()
    def a_switch_has_at_most_one_detour(self):
        if not hasattr(self, "state"):
            return
        detours = self.mirror.detours()
        if self.change is None or self.change["method"] == "versioning":
            assert not any(detours.values())
            return
        name = self.change["schema"]
        everything = DzSet([self.prefix[name]])
        mine = {each: command for each, command in self.registered.items() if command.schema == name}
        requests = [as_request(command, each, everything) for each, command in mine.items()]
        plain = self.topology.with_limit(None)
        expected = tables_of(plain, self.state.router.families, requests, SMALL.max_length)
        assert {switch: list(table) for switch, table in expected.items()} == detours
        assert all(len(listed) <= 1 for listed in detours.values())


TestChangesAgainstModel = ChangesAgainstModel.TestCase
TestChangesAgainstModel.settings = settings(stateful_step_count=20)
