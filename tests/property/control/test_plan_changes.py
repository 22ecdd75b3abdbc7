"""Changes of plans against a plain model: any requests between any steps, restarts of any kind, tables with limits.

Plans also differ in how many dz a registration may have. Trees also change in parts only. If the number of dz stays,
the model does not say then which region a registration gets, but what must be true of it: every event that it wants is
in it, it is what it was wherever events keep their dz, and so is all forwarding there.
"""

import json
from collections import defaultdict
from itertools import product

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pleroma.content import Schema
from pleroma.content.filter_json import from_json, to_json
from pleroma.control import (
    AdoptPlan,
    Advance,
    ChangePlan,
    CommandRefused,
    ControlState,
    CreateSchema,
    Done,
    Expire,
    Register,
    Withdraw,
    command_from_json,
)
from pleroma.control.kept_answers import KeptAnswers
from pleroma.control.state.command import ChooseTrees, Rewire, written
from pleroma.control.state.regions import spare_prefix
from pleroma.control.state.tree_choice import TREE_CHOICES
from pleroma.control.state_snapshot import restore, snapshot
from pleroma.control.transition.regrowth import MAX_AREA_CELLS, differing
from pleroma.index import DzSet, TreeIndex
from pleroma.routing import DetourOp, build
from pleroma.routing.family_spans import FamilySpans
from support.control_cases import ANN, BEN, SMALL, TRAFFIC, WEATHER
from support.plan_change_cases import Mirror, as_request, indices, region, regrowths, tables_of, trees
from support.strategies import filters

RING = build("ring:4")
SCHEMAS = {"weather": WEATHER, "traffic": TRAFFIC}
FURTHER = [Schema(name, WEATHER.attributes) for name in ("third", "fourth")]
hosts = st.sampled_from([host.name for host in RING.hosts])
schemas = st.sampled_from([WEATHER, TRAFFIC])
methods = st.sampled_from(["lightweight", "versioning"])
limits = st.none() | st.integers(1, 6)
leases = st.none() | st.sampled_from(["one", "two"])
EVENTS = {
    "weather": [WEATHER.event({"temperature": t, "wind": w}) for t, w in product(range(16), range(8))],
    "traffic": [TRAFFIC.event({"speed": s, "road": r}) for s, r in product(range(16), ("a1", "a2", "a3"))]
    + [TRAFFIC.event({"speed": s}) for s in range(16)],
}


@st.composite
def registers(draw):
    schema = draw(schemas)
    wanted = draw(filters(schema, 2).filter(bool))
    kind = draw(st.sampled_from(["advertisement", "subscription"]))
    return Register(kind, "ann", draw(hosts), schema.name, to_json(wanted), draw(leases))


@st.composite
def plans(draw, kind):
    schema = draw(schemas)
    index, members = draw(indices(schema)), draw(limits)
    if kind is ChangePlan:
        return ChangePlan(schema.name, index, draw(methods), members=members)
    return AdoptPlan(schema.name, index, members=members)


class ChangesAgainstModel(RuleBasedStateMachine):
    @initialize(
        limit=st.none() | st.integers(2, 8) | st.integers(16, 32),
        commands=st.lists(registers(), max_size=6),
        choice=st.sampled_from(TREE_CHOICES),
    )
    def begin(self, limit, commands, choice):
        self.topology = RING.with_limit(limit)
        self.state = ControlState(self.topology, SMALL)
        self.mirror = Mirror(self.topology)
        self.log = []
        self.registered = {}
        self.regions = {}  # in force
        self.index = {}  # by schema, of the plan in force
        self.members = {}
        self.prefix = {}
        self.change = None  # schema, method, phase, index, members and prefix of the other plan, area, other regions
        self.cut = ()
        for command in (ChooseTrees(choice), CreateSchema(WEATHER), CreateSchema(TRAFFIC), ANN, BEN):
            self.do(command)
        for name, entry in self.state.schemas.items():
            self.index[name], self.prefix[name], self.members[name] = entry.index, entry.prefix, SMALL.max_members
        for command in commands:
            self.register(command)

    def do(self, command):
        self.log.append(written(command))
        foretold = self.state.check(command)
        before = self.advertised(), self.state.router.families
        result = self.state.apply(len(self.log), command)
        assert (foretold is None) == isinstance(result, Done), result
        if isinstance(result, CommandRefused):
            return None
        self.mirror.take(result.switch_ops)
        if not isinstance(command, Rewire):
            self.what_is_sent_keeps_its_tree(*before)
        return result

    def advertised(self):
        """All cells that somebody may send in."""
        rules = self.state.rules
        return DzSet(dz for host in RING.host for dz in rules.admissions.of(host))

    def what_is_sent_keeps_its_tree(self, advertised, families):
        sent = advertised & self.advertised()
        for old in families:
            for new in self.state.router.families:
                assert old.tree.links == new.tree.links or not (old.region & new.region).overlaps(sent)

    @invariant()
    def everything_that_is_sent_has_one_tree(self):
        if hasattr(self, "state"):
            held = DzSet()
            for family in self.state.router.families:
                assert not held.overlaps(family.region)
                held = held | family.region
            assert held.covers(self.advertised())

    @rule(cut=st.sets(st.sampled_from(RING.links), max_size=2))
    def cut_and_mend_cables(self, cut):
        families = self.state.router.families
        self.cut = tuple(sorted((link.a, link.a_port) for link in cut))
        self.do(Rewire(down=self.cut))
        if not self.registered and self.change is None:
            return  # nothing is under way, and trees are dealt anew
        there = self.state.rules.present.links
        for old, new in zip(families, self.state.router.families, strict=True):
            assert old.region == new.region
            assert {link for link in old.tree.links if link in there} <= set(new.tree.links)

    @rule(choice=st.sampled_from(TREE_CHOICES))
    def deal_trees_otherwise(self, choice):
        assert self.do(ChooseTrees(choice)).switch_ops == []

    @rule(schema=schemas)
    def move_to_other_trees(self, schema):
        """By versioning, with the index in force."""
        self.begin_a_change(ChangePlan(schema.name, self.index[schema.name], "versioning", trees=()))

    @rule(command=registers())
    def register(self, command):
        made = self.do(command).value["id"]
        self.registered[made] = command
        self.regions[made] = self.covered(command)
        change = self.change
        if change is None or change["schema"] != command.schema:
            return
        if change["method"] == "versioning" or change["phase"] == "prepared":
            self.gets_another(made)

    def covered(self, command):
        name = command.schema
        return region(self.index[name], self.prefix[name], command, SCHEMAS[name], self.members[name])

    def gets_another(self, id_):
        """From first principles where all regions are made anew; else it is looked at, and kept."""
        change, command, now = self.change, self.registered[id_], self.regions[id_]
        if not change["regrows"]:
            schema, most = SCHEMAS[command.schema], change["members"]
            change["other"][id_] = region(change["index"], change["prefix"], command, schema, most)
            return
        other = self.state.plans.change.other.get(id_)
        assert (other is None) == (not now.overlaps(change["area"]))
        if other is None:
            return
        wanted = from_json(SCHEMAS[command.schema], command.filter)
        matching = [event for event in EVENTS[command.schema] if wanted.matches(event)]
        assert all(other.covers(change["prefix"].then(change["index"].dz(event))) for event in matching)
        assert other - change["area"] == now - change["area"]
        assert len(other) <= change["members"]
        change["other"][id_] = other

    @precondition(lambda self: self.registered)
    @rule(data=st.data())
    def withdraw(self, data):
        gone = data.draw(st.sampled_from(sorted(self.registered)))
        assert self.do(Withdraw(gone, "ann"))
        self.forget(gone)

    def forget(self, gone):
        del self.registered[gone], self.regions[gone]
        if self.change is not None:
            self.change["other"].pop(gone, None)

    @rule(lease=st.sampled_from(["one", "two"]))
    def expire(self, lease):
        gone = [each for each, command in self.registered.items() if command.lease == lease]
        assert (self.do(Expire(lease, "ann")) is not None) == bool(gone)
        for each in gone:
            self.forget(each)

    @rule(schema=st.sampled_from(FURTHER))
    def create_a_schema(self, schema):
        """It never gets a prefix under which events of another still travel."""
        made = self.do(CreateSchema(schema))
        if made is not None:
            entry = self.state.schemas[schema.name]
            taken = [*self.prefix.values(), *([self.change["prefix"]] if self.change else [])]
            assert entry.prefix not in taken
            self.index[schema.name], self.prefix[schema.name] = entry.index, entry.prefix
            self.members[schema.name] = entry.members

    @rule(command=plans(AdoptPlan))
    def adopt_at_once(self, command):
        made = self.do(command)
        assert (made is None) == (self.change is not None)
        if made is not None:
            self.moved(command)

    def moved(self, command):
        """All regions are those of the new plan from now on."""
        self.index[command.schema] = command.index
        self.members[command.schema] = command.members or self.members[command.schema]
        mine = {each: other for each, other in self.registered.items() if other.schema == command.schema}
        self.regions |= {each: self.covered(other) for each, other in mine.items()}

    @rule(schema=schemas, method=methods, data=st.data())
    def regrow_parts(self, schema, method, data):
        index = self.state.schemas[schema.name].index
        if self.change is None and not isinstance(index, TreeIndex):
            self.adopt_at_once(AdoptPlan(schema.name, data.draw(trees(schema, most=30))))
            index = self.state.schemas[schema.name].index
        if isinstance(index, TreeIndex):
            members = data.draw(st.none() | limits)
            self.begin_a_change(ChangePlan(schema.name, data.draw(regrowths(index)), method, members=members))

    @rule(schema=schemas, method=methods, members=st.integers(1, 6))
    def change_nothing_but_members(self, schema, method, members):
        self.begin_a_change(ChangePlan(schema.name, self.index[schema.name], method, members=members))

    @rule(command=plans(ChangePlan))
    def begin_a_change(self, command):
        before = self.state.schemas[command.schema].epoch
        same = self.state.schemas[command.schema].index.to_json() == command.index.to_json()
        forwarding = self.forwarding(command.schema)
        made = self.do(command)
        same = same and command.trees is None
        in_one_step = self.change is None and same and command.members not in (None, self.members[command.schema])
        assert self.state.schemas[command.schema].epoch == before + in_one_step
        if self.change is not None:
            assert made is None
        elif in_one_step:
            assert not any(isinstance(op, DetourOp) for op in made.switch_ops)
            assert self.state.plans.change is None
            self.moved(command)
        elif made is None:
            assert self.has_no_room(command)
        elif same:
            assert made.switch_ops == []
        else:
            own, changing = self.prefix[command.schema], self.state.plans.change
            self.change = {
                "schema": command.schema,
                "method": command.method,
                "phase": "prepared",
                "index": command.index,
                "members": command.members or self.members[command.schema],
                "prefix": changing.prefix,
                "area": changing.area,
                "local": changing.area != DzSet([own]),
                "other": {},
            }
            is_same_limit = self.change["members"] == self.members[command.schema]
            self.change["regrows"] = self.change["local"] and is_same_limit
            self.outside_the_area_nothing_moves()
            self.outside_the_area_all_goes_as_before(forwarding)
            for each, other in self.registered.items():
                if other.schema == command.schema:
                    self.gets_another(each)
            in_place = command.method == "lightweight" or self.change["local"]
            assert (self.change["prefix"] == own) == in_place
            assert in_place or self.change["prefix"] not in self.prefix.values()

    def has_no_room(self, command):
        """Whether a change has to be refused: no spare prefix, or tables too small for detours or for more trees."""
        if command.method == "versioning" and len(self.state.schemas) > 2:
            return True
        rules, entry, small = self.state.rules, self.state.schemas[command.schema], min(self.topology.limits.values())
        if command.method == "versioning":
            families = rules.router.policy.opened(
                rules.router.families, rules.router.topology, spare_prefix(entry, self.state.schemas.values(), SMALL)
            )
            return FamilySpans(family.region for family in families).least_rules > 2 * max(small // 4, 1)
        area = differing(entry.index, command.index, min(MAX_AREA_CELLS, max(small // 8, 1))).under(entry.prefix)
        return rules.detour_cells(area) + max(rules.router.family_rules, 1) > small

    def outside_the_area_nothing_moves(self):
        change = self.change
        name = change["schema"]
        assert DzSet([self.prefix[name]]).covers(change["area"])
        if not change["local"]:
            return
        for event in EVENTS[name]:
            old, new = (self.prefix[name].then(index.dz(event)) for index in (self.index[name], change["index"]))
            assert old == new or (change["area"].covers(old) and change["area"].covers(new))

    def forwarding(self, name):
        """By switch and event, where it goes; of events that the area does not have, this stays."""
        if name not in SCHEMAS or not isinstance(self.index[name], TreeIndex):
            return {}
        cells = {self.prefix[name].then(self.index[name].dz(event)) for event in EVENTS[name]}
        return {(s, dz): table.lookup(dz) for s, table in self.mirror.tables.items() for dz in cells}

    def outside_the_area_all_goes_as_before(self, forwarding):
        change = self.change
        if not change["regrows"] or self.topology.limits:  # a table that is full is made anew as a whole
            return
        for (switch, dz), flow in forwarding.items():
            if not change["area"].covers(dz):
                now = self.mirror.tables[switch].lookup(dz)
                assert (now and now.outputs) == (flow and flow.outputs)

    @rule(command=plans(ChangePlan))
    def the_same_again_is_free(self, command):
        index = self.state.schemas[command.schema].index
        if self.change is None:
            epoch = self.state.schemas[command.schema].epoch
            made = self.do(ChangePlan(command.schema, index, "lightweight"))
            assert made.value == {"schema": command.schema, "epoch": epoch, "unchanged": True}
            assert made.switch_ops == []
            assert self.state.plans.change is None

    @rule(step=st.sampled_from(["swap", "clear", "hop"]), schema=schemas)
    def advance(self, step, schema):
        """Also where there is nothing to advance."""
        expected = self.change is not None and self.change["schema"] == schema.name
        expected = expected and {"swap": "prepared", "clear": "swapped"}.get(step) == self.change["phase"]
        epoch = self.state.schemas[schema.name].epoch
        forwarding = self.forwarding(schema.name)
        made = self.do(Advance(schema.name, step))
        assert (made is not None) == expected
        if made is None:
            return
        self.outside_the_area_all_goes_as_before(forwarding)
        if step == "swap":
            name, change = schema.name, self.change
            new = change["other"]
            change["other"] = {each: self.regions[each] for each in new}
            self.regions |= new
            self.index[name], change["index"] = change["index"], self.index[name]
            self.prefix[name], change["prefix"] = change["prefix"], self.prefix[name]
            self.members[name], change["members"] = change["members"], self.members[name]
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
        again, _ = restore(snapshot(self.state, KeptAnswers()), self.topology, SMALL)
        self.is_the_same(again)
        self.state = again

    def is_the_same(self, other):
        assert snapshot(other, KeptAnswers()) == snapshot(self.state, KeptAnswers())
        assert other.plans.change == self.state.plans.change
        anew = Mirror(self.topology)
        anew.take(other.rules.everything())
        assert anew.rules() == self.mirror.rules()
        assert anew.detours() == self.mirror.detours()
        assert anew.admitted == self.mirror.admitted

    @invariant()
    def rules_follow_from_the_registrations(self):
        if not hasattr(self, "state"):
            return
        wanted = self.regions
        for each in self.registered:
            assert self.state.registrations[each].region == wanted[each]
        requests = [as_request(command, each, wanted[each]) for each, command in self.registered.items()]
        others = self.change["other"] if self.change is not None else {}
        topology = self.state.rules.present
        if self.change is not None and self.change["method"] == "versioning":
            requests += [as_request(self.registered[each], f"{each}'", area) for each, area in others.items()]
        if self.change is not None and self.change["method"] == "lightweight" and topology.limits:
            room = next(iter(topology.limits.values())) - self.state.rules.detour_cells(self.change["area"])
            topology = topology.with_limit(max(room, 1))
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
    def a_switch_has_at_most_one_detour_for_each_cell_of_the_area(self):
        if not hasattr(self, "state"):
            return
        detours = self.mirror.detours()
        if self.change is None or self.change["method"] == "versioning":
            assert not any(detours.values())
            return
        name, area = self.change["schema"], self.change["area"]
        requests = []
        for each, command in self.registered.items():
            if command.schema == name:
                both = self.regions[each] | self.change["other"].get(each, DzSet())
                cells = DzSet(cell for cell in area if both.overlaps(cell))
                requests += [as_request(command, each, cells)] if cells else []
        plain = self.state.rules.present.with_limit(None)
        expected = tables_of(plain, self.state.router.families, requests, SMALL.max_length)
        assert expected == detours
        assert all(len(listed) <= self.state.rules.detour_cells(area) for listed in detours.values())


TestChangesAgainstModel = ChangesAgainstModel.TestCase
TestChangesAgainstModel.settings = settings(stateful_step_count=20)
