import itertools
from dataclasses import replace

import pytest

from pleroma.content import Filter
from pleroma.content.filter_json import from_json
from pleroma.control import (
    AdoptPlan,
    CommandRefused,
    ControlSettings,
    ControlState,
    CreatePrincipal,
    CreateSchema,
    Done,
    Expire,
    Register,
    RemovePrincipal,
    Withdraw,
    command_from_json,
)
from pleroma.control.kept_answers import KeptAnswers
from pleroma.control.state import command as command_module
from pleroma.control.state.command import Begin, written
from pleroma.control.state_snapshot import restore, snapshot
from pleroma.errors import (
    AlreadyThere,
    ContentError,
    ControlError,
    DomainError,
    FilterSyntax,
    LimitReached,
    NotAllowed,
    NotThere,
    OtherControl,
    PlanError,
    UnknownName,
)
from pleroma.index import Dz, DzSet, GridIndex, Rectangle, SelectiveIndex, SelectiveRegion
from pleroma.routing import build
from support.control_cases import (
    ANN,
    BEN,
    DIGEST,
    LINE,
    SMALL,
    SUE,
    TRAFFIC,
    WEATHER,
    advertise,
    begin,
    boxes,
    fresh_tables,
    peopled,
    state_after,
    subscribe,
)
from support.routing_oracle import walk
from support.strategies import every_event


def contents(state):
    """Everything there is to know about a state, apart from its tables."""
    return snapshot(state, KeptAnswers())


def refused(state, command, position=99):
    """The error of a command; that it was foretold, and that nothing changed."""
    before, tables = contents(state), {s: t.copy() for s, t in state.router.tables.items()}
    foretold = state.check(command)
    result = state.apply(position, command)
    assert isinstance(result, CommandRefused)
    assert (type(foretold), str(foretold)) == (type(result.error), str(result.error))
    assert contents(state) == before
    assert state.router.tables == tables
    return result.error


def receivers(state, entry, event, host):
    """The hosts that an event reaches through the tables, one by one."""
    reached = []
    for dz in entry.index.dzs(event):
        reached += [name for name, _ in walk(state.topology, state.router.tables, host, entry.prefix.then(dz))]
    return reached


class TestSchemas:
    def test_the_first_plan_is_a_regular_grid(self):
        entry = state_after(CreateSchema(WEATHER)).schemas["weather"]
        assert (entry.number, str(entry.prefix), entry.epoch) == (0, "00", 1)
        assert entry.index == GridIndex.regular(WEATHER, 7)

    @pytest.mark.parametrize("bits", [0, 3, 7])
    def test_its_bits_can_be_chosen(self, bits):
        room_for_7 = ControlSettings(schema_bits=2, max_members=4, default_bits=3, max_length=9)
        state = state_after(CreateSchema(WEATHER, bits), settings=room_for_7)
        assert state.schemas["weather"].index.bits == bits
        done = state.apply(2, AdoptPlan("weather", GridIndex.regular(WEATHER, bits, ["wind", "temperature"])))
        assert isinstance(done, Done)

    def test_the_answer_says_what_a_publisher_must_know(self):
        state = state_after(CreateSchema(WEATHER))
        result = state.apply(2, CreateSchema(TRAFFIC))
        assert result == Done({"schema": "traffic", "number": 1, "prefix": "01", "epoch": 1}, [])

    def test_prefixes_do_not_overlap_and_run_out(self):
        names = [type(WEATHER)(f"w{i}", WEATHER.attributes) for i in range(5)]
        state = state_after(*map(CreateSchema, names[:4]))
        prefixes = [entry.prefix for entry in state.schemas.values()]
        assert not any(a.overlaps(b) for a, b in itertools.combinations(prefixes, 2))
        assert isinstance(refused(state, CreateSchema(names[4])), LimitReached)

    def test_a_name_is_given_once(self):
        assert isinstance(refused(state_after(CreateSchema(WEATHER)), CreateSchema(WEATHER)), AlreadyThere)

    @pytest.mark.parametrize("bits", [-1, 19, True, 2.5, "7"])
    def test_a_plan_has_the_bits_that_the_prefix_leaves(self, bits):
        error = refused(ControlState(LINE, SMALL), CreateSchema(WEATHER, bits))
        assert (type(error), error.field, error.value) == (PlanError, "bits", bits)

    def test_a_name_is_text_for_one_line(self):
        schema = type(WEATHER)("two\nlines", WEATHER.attributes)
        assert refused(ControlState(LINE, SMALL), CreateSchema(schema)).field == "name"


class TestRegistrations:
    def test_an_event_goes_where_it_is_wanted(self):
        state = peopled(advertise("pat", "wind < 4"), subscribe("sue", "temperature < 4"))
        entry = state.schemas["weather"]
        for event in every_event(WEATHER):
            published = event["wind"] < 4
            wanted = published and event["temperature"] < 4
            if published:
                assert receivers(state, entry, event, "h1") == (["h3"] if wanted else []), event

    def test_ids_and_publishers_come_from_the_position(self):
        state = peopled(advertise("pat", "wind < 4"), subscribe("sue", "temperature < 4"))
        assert list(state.registrations) == ["a7", "s8"]
        assert [r.publisher for r in state.registrations.values()] == [7, 0]
        registered = state.registrations["s8"]
        assert (registered.kind, registered.principal, registered.host) == ("subscription", "sue", "h3")
        assert registered.schema == "weather"
        assert registered.filter == Filter.parse(WEATHER, "temperature < 4")

    def test_the_answer(self):
        state = peopled()
        assert state.apply(7, advertise("pat", "wind < 4")).value == {
            "id": "a7",
            "schema": "weather",
            "host": "h1",
            "members": 2,
            "epoch": 1,
            "publisher": 7,
        }
        done = state.apply(8, subscribe("sue", "temperature < 4"))
        assert done.value["id"] == "s8"
        assert "publisher" not in done.value
        assert {op.switch for op in done.flows} == {"R1", "R2", "R3"}

    def test_a_region_has_the_prefix_and_as_many_members_as_allowed(self):
        state = peopled(subscribe("ben", "speed in (4, 7, 9, 11, 13, 15)", schema=TRAFFIC))
        region = state.registrations["s7"].region
        assert 1 < len(region) <= 4
        assert DzSet([Dz.parse("01")]).covers(region)

    def test_a_filter_that_was_parsed_already_is_no_part_of_the_command(self):
        state, plain = peopled(), subscribe("ben", "temperature < 4")
        wanted = Filter.parse(state.schemas["weather"].schema, "temperature < 4")
        parsed = replace(plain, known=wanted)
        assert parsed == plain
        assert written(parsed) == written(plain)
        assert parsed.parsed(wanted.schema) is wanted
        assert state.apply(7, parsed) == peopled().apply(7, plain)

    def test_a_filter_is_parsed_once_for_check_and_apply(self, monkeypatch):
        parsed = []
        monkeypatch.setattr(command_module, "from_json", lambda *each: parsed.append(each) or from_json(*each))
        state, wanted = peopled(), subscribe("ben", "temperature < 4")
        assert state.check(wanted) is None
        assert isinstance(state.apply(7, wanted), Done)
        assert len(parsed) == 1

    def test_listeners_hear_of_registrations_and_withdrawals_in_order(self):
        heard = []

        class Listener:
            def on_registered(self, registered):
                heard.append(("+", registered.id))

            def on_withdrawn(self, registered):
                heard.append(("-", registered.id))

        state = peopled(subscribe("ben", "true"))
        state.registrations.subscribe(Listener())
        for position, each in enumerate((advertise("ben", "true"), Withdraw("s7", "ben"), RemovePrincipal("ben")), 8):
            state.apply(position, each)
        assert heard == [("+", "a8"), ("-", "s7"), ("-", "a8")]

    def test_who_wants_to_hear_of_registrations_later_is_told_in_portions(self):
        heard = []

        class Listener:
            def on_registered(self, registered):
                heard.append(("+", registered.id))

            def on_withdrawn(self, registered):
                heard.append(("-", registered.id))

        state = peopled(subscribe("ben", "true"))
        state.registrations.subscribe(Listener())
        state.registrations.hold_back()
        for position, each in enumerate((advertise("ben", "true"), Withdraw("s7", "ben"), RemovePrincipal("ben")), 8):
            state.apply(position, each)
        assert heard == []
        assert state.registrations.tell(2)
        assert heard == [("+", "a8"), ("-", "s7")]
        assert not state.registrations.tell(2)
        assert heard == [("+", "a8"), ("-", "s7"), ("-", "a8")]

    def test_schemas_do_not_hear_each_other(self):
        state = peopled(
            advertise("ben", "true"), subscribe("ben", "true"), subscribe("ben", "speed > 3", "h2", TRAFFIC)
        )
        assert receivers(state, state.schemas["weather"], WEATHER.event(temperature=5, wind=5), "h1") == ["h3"]
        assert receivers(state, state.schemas["traffic"], TRAFFIC.event(speed=5), "h1") == []

    def test_withdrawing_takes_the_rules_away(self):
        state = peopled(advertise("pat", "wind < 4"), subscribe("sue", "temperature < 4"), Withdraw("s8", "sue"))
        assert list(state.registrations) == ["a7"]
        assert not any(len(table) for table in state.router.tables.values())

    @pytest.mark.parametrize(
        ("command", "error", "field"),
        [
            (subscribe("zoe", "true"), NotThere, "principal"),
            (subscribe("ben", "true", host="h9"), UnknownName, "host"),
            (subscribe("ben", "true", schema=type(WEATHER)("whether", WEATHER.attributes)), UnknownName, "schema"),
            (Register("rumour", "ben", "h1", "weather", [{}]), UnknownName, "kind"),
            (Register("subscription", "ben", "h1", "weather", "wind < 4"), FilterSyntax, None),
            (Register("subscription", "ben", "h1", "weather", [{"wind": {"<": 99}}]), DomainError, "wind"),
            (Register("subscription", "ben", "h1", "weather", []), ContentError, "filter"),
            (Register("subscription", "ben", "h1", "weather", [{"wind": {"<": {1}}}]), ControlError, None),
            (Withdraw("s99", "ben"), NotThere, "id"),
            (Withdraw("s99", "zoe"), NotThere, "principal"),
            (RemovePrincipal("zoe"), NotThere, "principal"),
        ],
    )
    def test_bad_requests_are_refused(self, command, error, field):
        found = refused(peopled(), command)
        assert (type(found), found.field) == (error, field)


class TestRights:
    def test_a_role_says_what_one_may_do(self):
        error = refused(peopled(), subscribe("pat", "wind < 4"))
        assert (type(error), error.field, error.value) == (NotAllowed, "role", "publisher")
        assert error.allowed == "subscriber, both, admin"
        assert refused(peopled(), advertise("sue", "temperature < 4")).allowed == "publisher, both, admin"

    def test_beyond_the_filter_one_hears_what_is_allowed(self):
        error = refused(peopled(), subscribe("sue", "temperature <= 8"))
        assert (type(error), error.field, error.allowed) == (NotAllowed, "filter", "temperature < 8")
        assert error.value == "temperature <= 8"
        assert refused(peopled(), advertise("pat", "wind <= 4")).allowed == "wind < 4"

    def test_up_to_the_filter_all_is_allowed(self):
        state = peopled(subscribe("sue", "temperature <= 7"), advertise("pat", "wind <= 3"))
        assert len(state.registrations) == 2

    def test_what_several_boxes_allow_together_is_allowed(self):
        state = state_after(
            CreateSchema(WEATHER),
            CreatePrincipal("joe", "subscriber", DIGEST, read={"weather": "wind < 4 or temperature > 7"}),
            subscribe("joe", "temperature > 9 or (wind < 2 and temperature > 3)"),
        )
        assert len(state.registrations) == 1
        assert refused(state, subscribe("joe", "wind < 5")).allowed == "wind < 4 or temperature > 7"

    def test_a_schema_that_is_not_named_is_closed(self):
        error = refused(peopled(), subscribe("sue", "true", schema=TRAFFIC))
        assert (type(error), error.field, error.value, error.allowed) == (NotAllowed, "schema", "traffic", "weather")

    def test_publishing_gives_no_right_to_read(self):
        state = state_after(CreateSchema(WEATHER), CreatePrincipal("joe", "both", DIGEST, publish={"weather": "true"}))
        assert refused(state, subscribe("joe", "true")).allowed == "nothing"

    def test_a_star_opens_all_schemas_but_those_named(self):
        state = peopled(subscribe("ben", "true"), advertise("ben", "true", schema=TRAFFIC))
        assert refused(state, subscribe("ben", "true", schema=TRAFFIC)).allowed == "speed > 3"

    def test_an_admin_may_do_everything(self):
        state = peopled(subscribe("sue", "temperature < 4"), subscribe("ann", "true"), advertise("ann", "true"))
        assert isinstance(state.apply(10, Withdraw("s7", "ann")), Done)
        assert list(state.registrations) == ["s8", "a9"]

    def test_others_withdraw_only_their_own(self):
        state = peopled(subscribe("sue", "temperature < 4"))
        error = refused(state, Withdraw("s7", "ben"))
        assert (type(error), error.field, error.value, error.allowed) == (NotAllowed, "id", "s7", "what ben registered")

    def test_subscriptions_are_limited_and_free_again(self):
        state = peopled(subscribe("sue", "temperature < 4"), subscribe("sue", "temperature < 4"))
        error = refused(state, subscribe("sue", "temperature < 4"))
        assert (type(error), error.field, error.value) == (LimitReached, "subscriptions", 2)
        assert isinstance(state.apply(9, Withdraw("s7", "sue")), Done)
        assert isinstance(state.apply(10, subscribe("sue", "temperature < 3")), Done)
        assert isinstance(refused(state, subscribe("sue", "temperature < 2")), LimitReached)

    def test_advertisements_do_not_count_as_subscriptions(self):
        joe = CreatePrincipal("joe", "both", DIGEST, {"*": "true"}, {"*": "true"}, 1)
        state = state_after(CreateSchema(WEATHER), joe, advertise("joe", "true"), subscribe("joe", "true"))
        assert isinstance(refused(state, subscribe("joe", "true")), LimitReached)


class TestPrincipals:
    def test_removing_one_withdraws_all_of_it(self):
        state = peopled(
            advertise("ben", "true"),
            subscribe("sue", "temperature < 4"),
            subscribe("ben", "true"),
            subscribe("ben", "true", "h2"),
        )
        done = state.apply(11, RemovePrincipal("ben"))
        assert done.value == {"name": "ben", "withdrawn": ["a7", "s9", "s10"]}
        assert list(state.registrations) == ["s8"]
        assert "ben" not in state.principals
        assert state.router.tables == fresh_tables(state)
        assert state.registrations.subscriptions_of("ben") == 0

    def test_a_new_one_of_the_same_name_begins_afresh(self):
        state = peopled(
            subscribe("sue", "temperature < 4"), subscribe("sue", "temperature < 4"), RemovePrincipal("sue"), SUE
        )
        assert isinstance(state.apply(11, subscribe("sue", "temperature < 4")), Done)
        assert list(state.registrations) == ["s11"]
        assert state.registrations.subscriptions_of("sue") == 1

    @pytest.mark.parametrize(
        ("command", "error", "field"),
        [
            (BEN, AlreadyThere, "name"),
            (CreatePrincipal("", "both", DIGEST), ControlError, "name"),
            (CreatePrincipal("x" * 201, "both", DIGEST), ControlError, "name"),
            (CreatePrincipal("joe", "king", DIGEST), UnknownName, "role"),
            (CreatePrincipal("joe", "both", "secret"), ControlError, "digest"),
            (CreatePrincipal("joe", "both", DIGEST, subscriptions=-1), ControlError, "subscriptions"),
            (CreatePrincipal("joe", "both", DIGEST, publish={"weathre": "true"}), UnknownName, "schema"),
            (CreatePrincipal("joe", "both", DIGEST, read={"weather": "wind <"}), FilterSyntax, None),
            (CreatePrincipal("joe", "both", DIGEST, read={"weather": "winds < 1"}), UnknownName, None),
            (CreatePrincipal("joe", "both", DIGEST, read={"*": "wind < 1"}), FilterSyntax, "*"),
            (CreatePrincipal("joe", "both", DIGEST, read={"weather": None}), FilterSyntax, "weather"),
        ],
    )
    def test_bad_ones_are_refused(self, command, error, field):
        found = refused(peopled(), command)
        assert (type(found), found.field) == (error, field)


class TestLeases:
    def test_what_was_registered_under_it_is_withdrawn_at_once(self):
        state = peopled(
            advertise("ben", "true", lease="one"),
            subscribe("sue", "temperature < 4", lease="one"),
            subscribe("ben", "true", lease="two"),
            subscribe("ben", "true"),
            subscribe("ben", "wind < 2", "h2", lease="one"),
        )
        done = state.apply(12, Expire("one", "ben"))
        assert done.value == {"lease": "one", "principal": "ben", "withdrawn": ["a7", "s11"]}
        assert list(state.registrations) == ["s8", "s9", "s10"]
        assert state.router.tables == fresh_tables(state)
        assert state.registrations.subscriptions_of("ben") == 2
        assert isinstance(refused(state, Expire("one", "ben")), NotThere)

    def test_tables_are_those_of_a_state_that_never_knew_it(self):
        others = (advertise("pat", "wind < 4"), subscribe("sue", "temperature < 4", "h2"))
        leased = (advertise("ben", "true", lease="x"), subscribe("ben", "temperature < 9", lease="x"))
        state = peopled(*others, *leased, Expire("x", "ben"))
        assert state.router.tables == peopled(*others).router.tables

    @pytest.mark.parametrize("command", [Expire("one", "ben"), Expire("two", "ann"), Expire("one", "nobody")])
    def test_one_that_holds_nothing_cannot_expire(self, command):
        error = refused(peopled(subscribe("ann", "true", lease="one")), command)
        assert (type(error), error.field, error.value) == (NotThere, "lease", command.lease)

    def test_an_adopted_plan_leaves_it_in_place(self):
        state = peopled(subscribe("ben", "wind < 2", lease="one"), AdoptPlan("weather", GridIndex.regular(WEATHER, 3)))
        assert state.registrations.by_lease["ben", "one"]["s7"] is state.registrations["s7"]

    def test_a_removed_principal_leaves_none(self):
        assert not peopled(subscribe("ben", "true", lease="one"), RemovePrincipal("ben")).registrations.by_lease

    @pytest.mark.parametrize("lease", ["", "x" * 65, "two\nlines", 7])
    def test_its_name_is_short_text_for_one_line(self, lease):
        error = refused(peopled(), subscribe("ben", "true", lease=lease))
        assert (type(error), error.field, error.value) == (ControlError, "lease", lease)

    def test_without_one_a_command_has_the_bytes_it_always_had(self):
        """Keys and snapshots of before keep their meaning."""
        plain = subscribe("ben", "wind < 2")
        assert "lease" not in plain.to_json()
        assert command_from_json(plain.to_json()) == plain
        assert b"lease" not in contents(peopled(plain))
        assert b'"one"]' in contents(peopled(subscribe("ben", "wind < 2", lease="one")))

    def test_a_snapshot_of_before_is_read(self):
        state = peopled(subscribe("ben", "wind < 2"))
        again, _ = restore(contents(state), LINE, SMALL)
        assert again.registrations["s7"].lease is None
        state = peopled(subscribe("ben", "wind < 2", lease='odd " name'))
        again, _ = restore(contents(state), LINE, SMALL)
        assert again.registrations["s7"].lease == 'odd " name'


def selective(*, quiet):
    """Two rectangles, and a rest that is sent or not."""
    cold = Rectangle(((0.0, 4.0), (0.0, 8.0)))
    calm = Rectangle(((4.0, 10.0), (0.0, 3.0)))
    regions = (
        SelectiveRegion(Dz.parse("0"), cold, GridIndex.regular(WEATHER, 5)),
        SelectiveRegion(Dz.parse("10"), calm, GridIndex.regular(WEATHER, 4, ["wind"])),
        SelectiveRegion(Dz.parse("11"), None, GridIndex.regular(WEATHER, 2)),
    )
    return SelectiveIndex(WEATHER, regions, quiet=quiet)


def check_deliveries(state, host="h1"):
    """No event that somebody wants is missed, and none comes twice. Waste is allowed."""
    entry = state.schemas["weather"]
    mine = [r for r in state.registrations.values() if r.schema == "weather"]
    for event in every_event(WEATHER):
        promised = any(r.kind == "advertisement" and r.host == host and r.filter.matches(event) for r in mine)
        wanted = {r.host for r in mine if r.kind == "subscription" and r.filter.matches(event)} - {host}
        reached = receivers(state, entry, event, host)
        assert len(set(reached)) == len(reached)
        if promised:
            assert wanted <= set(reached), event


class TestPlans:
    def test_each_plan_is_followed_and_kept(self):
        subscriptions = [
            subscribe("ben", "temperature between 3 and 9 and wind > 5"),
            subscribe("ben", "temperature < 5 or wind == 7", "h2"),
            subscribe("ben", "wind < 2", "h2"),
            subscribe("ben", "speed > 3", schema=TRAFFIC),
        ]
        state = peopled(advertise("ben", "true"), advertise("pat", "wind < 4", "h2"), *subscriptions)
        other = state.registrations["s12"]
        plans = [GridIndex.regular(WEATHER, 4, ["wind"]), selective(quiet=False), GridIndex.regular(WEATHER, 0)]
        for epoch, index in enumerate(plans, 2):
            rules = {switch: table.copy() for switch, table in state.router.tables.items()}
            done = state.apply(20 + epoch, AdoptPlan("weather", index))
            assert done.value == {"schema": "weather", "epoch": epoch, "registrations": 5}
            for op in done.flows:
                rules[op.switch].apply(op)
            assert rules == state.router.tables == fresh_tables(state)
            assert list(state.registrations) == ["a7", "a8", "s9", "s10", "s11", "s12"]
            check_deliveries(state)
            check_deliveries(state, "h2")
        entry = state.schemas["weather"]
        assert [plan.epoch for plan in entry.plans] == [1, 2, 3, 4]
        assert [plan.index for plan in entry.plans[1:]] == plans
        assert state.registrations["s12"] is other
        assert state.registrations.by_principal["ben"]["s9"] is state.registrations["s9"]

    def test_other_dimensions_give_other_regions(self):
        state = peopled(subscribe("sue", "temperature < 2"))
        before = state.registrations["s7"].region
        state.apply(8, AdoptPlan("weather", GridIndex.regular(WEATHER, 4, ["temperature"])))
        region = state.registrations["s7"].region
        assert region == DzSet.parse("00000")
        assert region != before

    def test_later_requests_use_the_new_plan(self):
        state = peopled(AdoptPlan("weather", GridIndex.regular(WEATHER, 4, ["temperature"])))
        done = state.apply(8, subscribe("sue", "temperature < 2"))
        assert (done.value["epoch"], done.value["members"]) == (2, 1)

    def test_a_quiet_plan_stays_quiet_for_those_inside(self):
        inside = subscribe("sue", "temperature < 3 and wind < 7")
        state = peopled(advertise("ben", "true"), inside, AdoptPlan("weather", selective(quiet=True)), inside)
        assert state.schemas["weather"].epoch == 2
        assert state.schemas["weather"].index.quiet
        check_deliveries(state)

    def test_who_reaches_out_opens_a_quiet_plan(self):
        state = peopled(advertise("ben", "true"), AdoptPlan("weather", selective(quiet=True)))
        done = state.apply(9, subscribe("sue", "temperature < 7"))
        assert (done.value["epoch"], done.value["opened"]) == (3, True)
        entry = state.schemas["weather"]
        assert entry.index == selective(quiet=False)
        check_deliveries(state)

    def test_a_quiet_plan_that_somebody_reaches_out_of_is_adopted_open(self):
        reaching = subscribe("sue", "temperature < 7")
        state = peopled(advertise("ben", "true"), reaching, AdoptPlan("weather", selective(quiet=True)))
        assert state.schemas["weather"].index == selective(quiet=False)
        assert state.schemas["weather"].epoch == 2
        check_deliveries(state)

    def test_plans_that_do_not_fit_are_refused(self):
        state = peopled()
        assert isinstance(refused(state, AdoptPlan("weather", GridIndex.regular(TRAFFIC, 3))), PlanError)
        assert isinstance(refused(state, AdoptPlan("whether", GridIndex.regular(WEATHER, 3))), UnknownName)
        long = ControlSettings(schema_bits=2, max_members=4, default_bits=3, max_length=5)
        state = state_after(CreateSchema(WEATHER), settings=long)
        error = refused(state, AdoptPlan("weather", GridIndex.regular(WEATHER, 4)))
        assert (type(error), error.value) == (PlanError, 4)


class TestBegin:
    def test_a_log_of_other_settings_or_another_network_is_refused(self):
        state = ControlState(LINE, SMALL)
        assert isinstance(state.apply(1, begin(state)), Done)
        error = refused(state, Begin(ControlSettings().to_json(), state.network))
        assert (type(error), error.field) == (OtherControl, "settings")
        error = refused(state, begin(ControlState(build("line:4"), SMALL)))
        assert (type(error), error.field) == (OtherControl, "topology")

    @pytest.mark.parametrize(
        "wrong",
        [{"schema_bits": 17}, {"schema_bits": -1}, {"max_members": 0}, {"max_length": 113}, {"default_bits": 107}],
    )
    def test_impossible_settings_are_refused(self, wrong):
        with pytest.raises(ControlError) as caught:
            ControlSettings(**wrong)
        assert caught.value.field == next(iter(wrong))


def test_the_order_of_arrival_does_not_matter_to_the_tables():
    requests = [
        advertise("ben", "true"),
        advertise("pat", "wind < 4", "h2"),
        subscribe("sue", "temperature < 4"),
        subscribe("ben", "wind > 2", "h2"),
    ]
    tables = [peopled(*order).router.tables for order in itertools.permutations(requests)]
    assert all(each == tables[0] for each in tables)


def test_names_of_admins_are_taken_too():
    assert isinstance(refused(peopled(), ANN), AlreadyThere)


def test_what_boxes_mean_does_not_depend_on_how_they_are_written():
    one = peopled(Register("subscription", "ann", "h1", "weather", [{"wind": {"<": 4}}]))
    two = peopled(Register("subscription", "ann", "h1", "weather", [{"wind": {"<=": 3}}, {"wind": {"<": 2}}]))
    (first,), (second,) = one.registrations.values(), two.registrations.values()
    assert (first.filter, first.region) == (second.filter, second.region)
    assert boxes(WEATHER, "wind < 4") == [{"wind": {"<=": 3}}]
