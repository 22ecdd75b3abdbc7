"""The control state against a plain model, through any sequence of commands, good and bad, and restarts of any kind."""

import json

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pleroma.content import Filter
from pleroma.content.filter_json import from_json, to_json
from pleroma.control import (
    AdoptPlan,
    ChangeGroup,
    ChangePrincipal,
    CommandRefused,
    ControlState,
    CreateGroup,
    CreatePrincipal,
    CreateSchema,
    Done,
    Expire,
    Register,
    RemoveGroup,
    RemovePrincipal,
    Withdraw,
    command_from_json,
)
from pleroma.control.kept_answers import KeptAnswers
from pleroma.control.state.command import canonical, written
from pleroma.control.state_snapshot import restore, snapshot
from pleroma.index import DzSet, GridIndex
from pleroma.routing import FlowTable, build
from support.control_cases import DIGEST, SMALL, TRAFFIC, WEATHER, fresh_tables
from support.strategies import filters

NETWORK = build("ring:4")
SCHEMAS = {"weather": WEATHER, "traffic": TRAFFIC}
PEOPLE = ("ann", "ben", "cat")
RIGHTS = {"weather": ("true", "wind < 4", "temperature > 3 or wind == 0"), "traffic": ("true", "speed < 9")}
MAY = {"advertisement": ("publisher", "both", "admin"), "subscription": ("subscriber", "both", "admin")}

names = st.sampled_from(PEOPLE)
rights = st.fixed_dictionaries({}, optional={name: st.sampled_from(texts) for name, texts in RIGHTS.items()})
rights |= st.just({"*": "true"})
hosts = st.sampled_from([host.name for host in NETWORK.hosts])
leases = st.sampled_from(("one", "two", "drei"))
kinds = st.sampled_from(("advertisement", "subscription"))


groups = st.sampled_from(("readers", "writers"))
changes = st.fixed_dictionaries(
    {}, optional={name: st.none() | st.sampled_from(texts) for name, texts in (RIGHTS | {"*": ("true",)}).items()}
)


def merged(before, changed):
    return {name: text for name, text in (before | changed).items() if text is not None}


@st.composite
def registers(draw):
    schema = draw(st.sampled_from((WEATHER, TRAFFIC)))
    wanted = draw(
        filters(schema, 2) | st.sampled_from(RIGHTS[schema.name]).map(lambda text: Filter.parse(schema, text))
    )
    return Register(draw(kinds), draw(names), draw(hosts), schema.name, to_json(wanted), draw(st.none() | leases))


@st.composite
def plans(draw):
    schema = draw(st.sampled_from((WEATHER, TRAFFIC)))
    dimensions = draw(st.lists(st.sampled_from(schema.names), unique=True))
    return AdoptPlan(schema.name, GridIndex.regular(schema, draw(st.integers(0, 7)), dimensions))


class ControlAgainstModel(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.position = 0
        self.state = ControlState(NETWORK, SMALL)
        self.log = []
        self.network = {switch: FlowTable() for switch in NETWORK.switches}
        self.people = {}
        self.groups = {}  # name: the filters by schema, of publish and read
        self.members = {}  # principal: the names of its groups
        self.registered = {}  # id: the command
        self.epochs = {}
        self.create_schema("weather")
        self.create_principal("ann", "admin", {}, {}, None)
        self.create_principal("ben", "both", {"*": "true"}, {"weather": "wind < 4"}, 2)

    def do(self, command):
        self.position += 1
        self.log.append(written(command))
        assert self.log[-1] == canonical(command.to_json())
        foretold = self.state.check(command)
        result = self.state.apply(self.position, command)
        assert (foretold is None) == isinstance(result, Done)
        if isinstance(result, CommandRefused):
            assert str(result.error) == str(foretold)
            return None
        for op in result.flows:
            self.network[op.switch].apply(op)
        return result.value

    @rule(name=st.sampled_from(sorted(SCHEMAS)))
    def create_schema(self, name):
        made = self.do(CreateSchema(SCHEMAS[name]))
        assert (made is None) == (name in self.epochs)
        self.epochs.setdefault(name, 1)

    @rule(
        name=names,
        role=st.sampled_from(("admin", "publisher", "subscriber", "both")),
        publish=rights,
        read=rights,
        most=st.none() | st.integers(0, 2),
    )
    def create_principal(self, name, role, publish, read, most):
        made = self.do(CreatePrincipal(name, role, DIGEST, publish, read, most))
        known = all(schema == "*" or schema in self.epochs for schema in (*publish, *read))
        assert (made is not None) == (known and name not in self.people)
        if made:
            self.people[name] = (role, dict(publish), dict(read), most)
            self.members[name] = []

    @rule(name=names, publish=changes, read=changes, joins=st.dictionaries(groups, st.booleans(), max_size=2))
    def change_principal(self, name, publish, read, joins):
        made = self.do(ChangePrincipal(name, None, publish, read, {}, joins))
        known = self.knows(publish, read) and all(each in self.groups for each, joined in joins.items() if joined)
        assert (made is not None) == (known and name in self.people)
        if made:
            role, before_publish, before_read, most = self.people[name]
            self.people[name] = (role, merged(before_publish, publish), merged(before_read, read), most)
            left = [each for each in self.members[name] if joins.get(each, True)]
            self.members[name] = left + [each for each, joined in joins.items() if joined and each not in left]
            self.have_gone(made, [name])

    @rule(name=groups, publish=rights, read=rights)
    def create_group(self, name, publish, read):
        made = self.do(CreateGroup(name, publish, read))
        assert (made is not None) == (self.knows(publish, read) and name not in self.groups)
        if made:
            self.groups[name] = dict(publish), dict(read)

    @rule(name=groups, publish=changes, read=changes)
    def change_group(self, name, publish, read):
        made = self.do(ChangeGroup(name, publish, read))
        assert (made is not None) == (self.knows(publish, read) and name in self.groups)
        if made:
            before = self.groups[name]
            self.groups[name] = merged(before[0], publish), merged(before[1], read)
            self.have_gone(made, [each for each in self.people if name in self.members[each]])

    @rule(name=groups)
    def remove_group(self, name):
        made = self.do(RemoveGroup(name))
        assert (made is not None) == (name in self.groups)
        if made:
            del self.groups[name]
            having = [each for each in self.people if name in self.members[each]]
            for each in having:
                self.members[each].remove(name)
            self.have_gone(made, having)

    def knows(self, *sides):
        given = [schema for side in sides for schema, text in side.items() if text is not None]
        return all(schema == "*" or schema in self.epochs for schema in given)

    def have_gone(self, made, names):
        """What these may no longer have registered is withdrawn, and nothing else."""
        standing = [(each, command) for each, command in self.registered.items() if command.principal in names]
        gone = [each for each, command in standing if not self.is_within(command)]
        assert sorted(made["withdrawn"]) == sorted(gone)
        for each in gone:
            del self.registered[each]

    @rule(name=names)
    def remove_principal(self, name):
        made = self.do(RemovePrincipal(name))
        assert (made is not None) == (name in self.people)
        self.people.pop(name, None)
        gone = [each for each, command in self.registered.items() if command.principal == name]
        if made:
            assert made["withdrawn"] == gone
        for each in gone:
            del self.registered[each]

    def may(self, command):
        if command.principal not in self.people or command.schema not in self.epochs or not command.filter:
            return False
        role, *_, most = self.people[command.principal]
        if role not in MAY[command.kind]:
            return False
        if command.kind == "subscription" and most is not None and self.count(command.principal) >= most:
            return False
        return self.is_within(command)

    def is_within(self, command):
        """Whether the rights of its principal and of its groups leave nothing of a filter over."""
        role, *own, _ = self.people[command.principal]
        side = ("advertisement", "subscription").index(command.kind)
        parts = [own[side], *(self.groups[each][side] for each in self.members[command.principal])]
        schema = SCHEMAS[command.schema]
        left = from_json(schema, command.filter)
        for within in parts:
            text = within.get(command.schema, within.get("*"))
            left = left if text is None else left - Filter.parse(schema, text)
        return role == "admin" or not left

    def count(self, name):
        mine = [each for each in self.registered.values() if each.principal == name]
        return sum(each.kind == "subscription" for each in mine)

    @rule(command=registers())
    def register(self, command):
        allowed = self.may(command)
        made = self.do(command)
        assert (made is not None) == allowed
        if made:
            assert made["id"] == f"{command.kind[0]}{self.position}"
            assert made["epoch"] == self.epochs[command.schema]
            self.registered[made["id"]] = command

    @rule(data=st.data(), name=names)
    def withdraw(self, data, name):
        id_ = data.draw(st.sampled_from([*self.registered, "s0"]))
        made = self.do(Withdraw(id_, name))
        role = self.people[name][0] if name in self.people else None
        mine = id_ in self.registered and (role == "admin" or self.registered[id_].principal == name)
        assert (made is not None) == (name in self.people and mine)
        if made:
            del self.registered[id_]

    @rule(name=names, lease=leases)
    def expire(self, name, lease):
        made = self.do(Expire(lease, name))
        standing = self.registered.items()
        gone = [each for each, command in standing if (command.principal, command.lease) == (name, lease)]
        assert (made is not None) == bool(gone)
        if made:
            assert made == {"lease": lease, "principal": name, "withdrawn": gone}
        for each in gone:
            del self.registered[each]

    @rule(command=plans())
    def adopt(self, command):
        made = self.do(command)
        assert (made is not None) == (command.schema in self.epochs)
        if made:
            self.epochs[command.schema] += 1
            assert made["epoch"] == self.epochs[command.schema]

    @rule()
    def replay_the_log(self):
        again = ControlState(NETWORK, SMALL)
        for position, text in enumerate(self.log, 1):
            again.apply(position, command_from_json(json.loads(text)))
        self.is_the_same(again)

    @rule()
    def go_on_from_a_snapshot(self):
        """From here on with what a restart has."""
        again, _ = restore(snapshot(self.state, KeptAnswers()), NETWORK, SMALL)
        self.is_the_same(again)
        self.state = again

    def is_the_same(self, other):
        assert snapshot(other, KeptAnswers()) == snapshot(self.state, KeptAnswers())
        assert other.router.tables == self.state.router.tables
        assert other.registrations.by_principal == self.state.registrations.by_principal
        assert other.registrations.by_lease == self.state.registrations.by_lease
        assert {name: other.registrations.subscriptions_of(name) for name in PEOPLE} == {
            name: self.state.registrations.subscriptions_of(name) for name in PEOPLE
        }

    @invariant()
    def the_registered_are_registered(self):
        if not hasattr(self, "state"):
            return
        assert list(self.state.registrations) == list(self.registered)
        assert set(self.state.principals) == set(self.people)
        assert {name: entry.epoch for name, entry in self.state.schemas.items()} == self.epochs
        for name in PEOPLE:
            assert self.state.registrations.subscriptions_of(name) == self.count(name)
            mine = [each for each, command in self.registered.items() if command.principal == name]
            assert list(self.state.registrations.by_principal.get(name, ())) == mine
        leased = {}
        for each, command in self.registered.items():
            if command.lease is not None:
                leased.setdefault((command.principal, command.lease), []).append(each)
        assert {lease: list(its) for lease, its in self.state.registrations.by_lease.items()} == leased

    @invariant()
    def regions_enclose_the_filters_under_the_plan_in_force(self):
        if not hasattr(self, "state"):
            return
        for each, command in self.registered.items():
            registered = self.state.registrations[each]
            entry = self.state.schemas[command.schema]
            assert registered.filter == from_json(SCHEMAS[command.schema], command.filter)
            expected = entry.index.cover(registered.filter, max_members=SMALL.max_members)
            assert registered.region == DzSet(entry.prefix.then(dz) for dz in expected)

    @invariant()
    def the_tables_are_those_of_the_regions_and_the_network_follows(self):
        if not hasattr(self, "state"):
            return
        assert self.state.router.tables == fresh_tables(self.state) == self.network


TestControlAgainstModel = ControlAgainstModel.TestCase
TestControlAgainstModel.settings = settings(stateful_step_count=25)
