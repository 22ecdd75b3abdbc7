"""Principals that change, tokens that are replaced or end, and groups of rights: what becomes of whom, and of what."""

import json

import pytest

from pleroma.content import Integer, Schema
from pleroma.control import (
    ChangeGroup,
    ChangePrincipal,
    CommandRefused,
    CreateGroup,
    CreatePrincipal,
    CreateSchema,
    Done,
    EndToken,
    Register,
    RemoveGroup,
    RemovePrincipal,
    RotateToken,
    command_from_json,
)
from pleroma.control.feed_items import command_items
from pleroma.control.kept_answers import KeptAnswers
from pleroma.control.state.command import canonical
from pleroma.control.state.people import MAX_GROUPS_OF_A_PRINCIPAL
from pleroma.control.state_snapshot import restore, snapshot
from pleroma.errors import (
    AlreadyThere,
    ContentError,
    ControlError,
    FilterSyntax,
    LimitReached,
    NotAllowed,
    NotThere,
    UnknownName,
)
from support.control_cases import (
    DIGEST,
    LINE,
    SMALL,
    WEATHER,
    advertise,
    boxes,
    fresh_tables,
    peopled,
    state_after,
    subscribe,
)

OLD, NEW, NEWEST = (letter * 64 for letter in "abc")
JOE = CreatePrincipal("joe", "both", OLD)
WINDY = CreateGroup("windy", read={"weather": "wind > 3"})


def done(state, command, position=50):
    result = state.apply(position, command)
    assert isinstance(result, Done), result
    return result.value


def refused(state, command):
    before = snapshot(state, KeptAnswers())
    result = state.apply(50, command)
    assert isinstance(result, CommandRefused), result
    assert snapshot(state, KeptAnswers()) == before
    assert type(state.check(command)) is type(result.error)
    return result.error


def may_read(state, who, text):
    return state.check(subscribe(who, text)) is None


def restored(state):
    """The state as it is after a restart from its snapshot, which must be the same."""
    taken = snapshot(state, KeptAnswers())
    again, _ = restore(taken, LINE, SMALL)
    assert snapshot(again, KeptAnswers()) == taken
    return again


class TestRights:
    def test_what_the_new_rights_do_not_allow_is_withdrawn_with_its_rules_and_the_rest_stays(self):
        state = peopled(
            advertise("ben", "true"), subscribe("sue", "temperature < 2"), subscribe("sue", "temperature < 7")
        )
        answer = done(state, ChangePrincipal("sue", read={"weather": "temperature < 4"}))
        assert answer["withdrawn"] == ["s9"]
        assert list(state.registrations) == ["a7", "s8"]
        assert {name: table for name, table in state.router.tables.items() if table} == {
            name: table for name, table in fresh_tables(state).items() if table
        }
        assert not may_read(state, "sue", "temperature < 5")

    def test_a_right_that_is_taken_away_takes_all_that_was_registered_by_it(self):
        state = peopled(subscribe("sue", "temperature < 2"), advertise("pat", "wind < 2"))
        assert done(state, ChangePrincipal("sue", read={"weather": None}))["withdrawn"] == ["s7"]
        assert isinstance(state.check(subscribe("sue", "temperature < 2")), NotAllowed)
        assert done(state, ChangePrincipal("pat", publish={"weather": None}))["withdrawn"] == ["a8"]
        assert not state.registrations.by_publisher

    def test_what_is_not_given_stays(self):
        state = peopled()
        done(state, ChangePrincipal("ben", read={"weather": "wind < 2"}, limits={"boxes": 7}))
        ben = state.principals["ben"]
        assert ben.rights.read == {"*": "true", "traffic": "speed > 3", "weather": "wind < 2"}
        assert (ben.rights.publish, ben.subscriptions, ben.boxes) == ({"*": "true"}, None, 7)
        done(state, ChangePrincipal("ben", limits={"boxes": None}))
        assert state.principals["ben"].boxes is None

    def test_another_role_withdraws_what_it_does_not_allow(self):
        state = peopled(subscribe("ben", "true"), advertise("ben", "true"))
        assert done(state, ChangePrincipal("ben", role="publisher"))["withdrawn"] == ["s7"]
        assert done(state, ChangePrincipal("ben", role="tuner"))["withdrawn"] == ["a8"]
        assert done(state, ChangePrincipal("ben", role="admin"))["withdrawn"] == []
        assert may_read(state, "ben", "true")

    def test_a_limit_below_what_stands_withdraws_nothing_and_allows_nothing_more(self):
        state = peopled(subscribe("sue", "temperature < 2"), subscribe("sue", "temperature < 2"))
        assert done(state, ChangePrincipal("sue", limits={"subscriptions": 1}))["withdrawn"] == []
        assert isinstance(state.check(subscribe("sue", "temperature < 2")), LimitReached)

    @pytest.mark.parametrize(
        ("command", "error"),
        [
            (ChangePrincipal("zoe"), NotThere),
            (ChangePrincipal("sue", role="king"), UnknownName),
            (ChangePrincipal("sue", read={"weather": "wind <"}), FilterSyntax),
            (ChangePrincipal("sue", read={"weathre": "true"}), UnknownName),
            (ChangePrincipal("sue", publish={"*": "wind < 2"}), FilterSyntax),
            (ChangePrincipal("sue", limits={"boxes": -1}), ControlError),
            (ChangePrincipal("sue", limits={"friends": 1}), UnknownName),
            (ChangePrincipal("sue", groups={"nobody": True}), UnknownName),
            (RotateToken("zoe", NEW), NotThere),
            (RotateToken("sue", "secret"), ControlError),
            (RotateToken("sue", DIGEST), AlreadyThere),
            (RotateToken("sue", NEW, ends=float("inf")), ControlError),
            (RotateToken("sue", NEW, earlier_ends="soon"), ControlError),
            (EndToken("sue", DIGEST), NotThere),
            (EndToken("sue", NEW), NotThere),
            (EndToken("sue", "né"), ControlError),
            (CreatePrincipal("joe", "both", OLD, ends=True), ControlError),
            (CreatePrincipal("joe", "both", OLD, groups=("nobody",)), UnknownName),
            (ChangeGroup("nobody"), NotThere),
            (RemoveGroup("nobody"), NotThere),
            (CreateGroup("", {}, {}), ControlError),
            (CreateGroup("g", {"weather": "wind <"}, {}), FilterSyntax),
        ],
    )
    def test_what_cannot_be_is_refused_and_changes_nothing(self, command, error):
        assert isinstance(refused(peopled(subscribe("sue", "temperature < 2")), command), error)


class TestGroups:
    def test_a_principal_may_do_what_it_or_any_of_its_groups_may(self):
        state = peopled(WINDY, CreateGroup("warm", read={"weather": "temperature > 9"}))
        done(state, ChangePrincipal("sue", groups={"windy": True, "warm": True}, limits={"subscriptions": None}))
        for text in ("temperature < 8", "wind > 3", "temperature > 9 and wind = 0", "temperature < 8 or wind > 3"):
            assert may_read(state, "sue", text)
        assert not may_read(state, "sue", "true")
        error = state.check(subscribe("sue", "true"))
        assert error.allowed == "(temperature < 8) or (wind > 3) or (temperature > 9)"

    def test_all_of_every_schema_from_anywhere_is_all(self):
        state = peopled(CreateGroup("all", read={"*": "true"}))
        done(state, ChangePrincipal("sue", groups={"all": True}))
        assert may_read(state, "sue", "true")
        done(state, ChangePrincipal("sue", groups={"all": False}))
        assert not may_read(state, "sue", "true")

    def test_a_change_of_the_group_is_one_of_all_members_at_once_and_of_nobody_else(self):
        everybody = ("joe", "jim", "jon")
        state = peopled(WINDY)
        for number, name in enumerate(everybody, 10):
            done(state, CreatePrincipal(name, "both", DIGEST, groups=("windy",)), number)
            done(state, subscribe(name, "wind > 4"), 10 * number)
        done(state, subscribe("ben", "wind > 4"), 200)
        done(state, ChangePrincipal("jon", read={"weather": "wind > 2"}))
        answer = done(state, ChangeGroup("windy", read={"weather": "wind > 5"}))
        assert answer["withdrawn"] == ["s100", "s110"]
        assert [each.principal for each in state.registrations.values()] == ["jon", "ben"]
        assert not any(may_read(state, name, "wind > 4") for name in ("joe", "jim"))
        assert all(may_read(state, name, "wind > 5") for name in everybody)
        done(state, ChangeGroup("windy", publish={"weather": "true"}))
        assert state.check(advertise("joe", "true")) is None

    def test_to_leave_a_group_and_to_remove_it_take_away_what_it_allowed(self):
        state = peopled(WINDY, CreatePrincipal("joe", "both", OLD, groups=("windy",)), subscribe("joe", "wind > 5"))
        left = restored(state)
        assert done(left, ChangePrincipal("joe", groups={"windy": False}))["withdrawn"] == ["s9"]
        assert left.principals["joe"].groups == ()
        assert done(state, RemoveGroup("windy"))["withdrawn"] == ["s9"]
        assert state.principals["joe"].groups == ()
        assert not state.people.groups
        assert not may_read(state, "joe", "wind > 5")

    def test_a_name_is_given_once_and_groups_of_a_principal_are_few(self):
        groups = [CreateGroup(f"g{number}") for number in range(MAX_GROUPS_OF_A_PRINCIPAL + 1)]
        state = peopled(*groups)
        assert isinstance(refused(state, groups[0]), AlreadyThere)
        names = [each.name for each in groups]
        done(state, ChangePrincipal("sue", groups=dict.fromkeys(names[1:], True)))
        assert isinstance(refused(state, ChangePrincipal("sue", groups={names[0]: True})), LimitReached)
        done(state, ChangePrincipal("sue", groups={names[0]: True, names[1]: False}))

    def test_rights_that_are_understood_one_by_one_and_too_many_together_are_refused(self):
        wide = Schema("wide", (Integer("a", False, 0, 9999), Integer("b", False, 0, 9999)))

        def many(first):
            return " or ".join(f"a = {each} and b = {each}" for each in range(first, first + 4000, 2))

        state = state_after(CreateSchema(wide), CreateGroup("odd"), CreateGroup("all", read={"wide": "true"}), JOE)
        done(state, ChangePrincipal("joe", read={"wide": many(0)}, groups={"odd": True}))
        assert isinstance(refused(state, ChangeGroup("odd", read={"wide": many(1)})), ContentError)
        done(state, ChangeGroup("odd", read={"wide": "a = 1"}))
        done(state, ChangePrincipal("joe", groups={"all": True}))
        assert state.check(Register("subscription", "joe", "h1", "wide", boxes(wide, "true"))) is None


class TestTokens:
    def test_another_token_takes_the_place_of_the_one_before_at_once(self):
        state = state_after(JOE)
        done(state, RotateToken("joe", NEW))
        assert state.principals.with_digest(OLD) is None
        assert state.principals.with_digest(NEW)[0].name == "joe"
        assert not state.principals.timed

    def test_with_a_grace_both_are_known_until_the_earlier_ends(self):
        state = state_after(JOE)
        done(state, RotateToken("joe", NEW, earlier_ends=100.0))
        joe, token = state.principals.with_digest(OLD)
        assert (token.ends, token.is_over, joe.token.digest) == (100.0, False, NEW)
        assert list(state.principals.timed) == ["joe"]
        done(state, EndToken("joe", OLD))
        assert state.principals.with_digest(OLD)[1].is_over
        assert not state.principals.with_digest(NEW)[1].is_over
        assert not state.principals.timed
        assert isinstance(refused(state, EndToken("joe", OLD)), NotThere)

    def test_at_most_two_are_good_and_a_grace_does_not_prolong(self):
        state = state_after(JOE)
        done(state, RotateToken("joe", NEW, ends=50.0, earlier_ends=100.0))
        done(state, RotateToken("joe", NEWEST, earlier_ends=100.0))
        assert state.principals.with_digest(OLD) is None
        assert state.principals.with_digest(NEW)[1].ends == 50.0
        done(state, EndToken("joe", NEW))
        done(state, RotateToken("joe", OLD, earlier_ends=200.0))
        assert state.principals.with_digest(NEWEST)[1].ends == 200.0

    def test_one_that_is_over_gets_no_grace(self):
        state = state_after(CreatePrincipal("joe", "both", OLD, ends=10.0))
        done(state, EndToken("joe", OLD))
        done(state, RotateToken("joe", NEW, earlier_ends=100.0))
        assert state.principals.with_digest(OLD) is None

    def test_with_the_last_token_all_that_was_registered_ends_and_not_before(self):
        state = peopled(
            CreatePrincipal("joe", "both", OLD, {}, {"*": "true"}, ends=10.0),
            RotateToken("joe", NEW, ends=20.0, earlier_ends=30.0),
            subscribe("joe", "true"),
        )
        assert done(state, EndToken("joe", OLD))["withdrawn"] == []
        assert done(state, EndToken("joe", NEW))["withdrawn"] == ["s9"]
        done(state, RotateToken("joe", NEWEST))
        assert may_read(state, "joe", "true")

    def test_a_token_that_may_be_in_wrong_hands_takes_all_along(self):
        state = peopled(subscribe("ben", "true"), advertise("ben", "true"), subscribe("sue", "temperature < 2"))
        assert done(state, RotateToken("ben", NEW))["withdrawn"] == []
        assert done(state, RotateToken("ben", OLD, withdraw=True))["withdrawn"] == ["s7", "a8"]
        assert list(state.registrations) == ["s9"]

    def test_a_principal_that_goes_leaves_no_token_and_no_instant_behind(self):
        state = state_after(CreatePrincipal("joe", "both", OLD, ends=10.0), RotateToken("joe", NEW, 20.0, 30.0))
        done(state, RemovePrincipal("joe"))
        assert state.principals.with_digest(OLD) is state.principals.with_digest(NEW) is None
        assert not state.principals.timed


COMMANDS = (
    CreateSchema(WEATHER),
    WINDY,
    CreatePrincipal("joe", "both", OLD, {}, {"weather": "wind < 2"}, 3, 4, ("windy",), 10.5),
    CreatePrincipal("jim", "subscriber", NEW, groups=("windy",)),
    subscribe("jim", "wind > 4"),
    RotateToken("joe", NEWEST, 20.0, 30.0, withdraw=True),
    EndToken("joe", OLD),
    ChangePrincipal("joe", "publisher", {"*": "true"}, {"weather": None}, {"boxes": None}, {"windy": False}),
    ChangeGroup("windy", {}, {"weather": "wind > 3"}),
)


class TestHistory:
    def test_the_same_commands_as_text_give_the_same_state_and_a_snapshot_is_that_state(self):
        state = state_after(*COMMANDS)
        read = [command_from_json(json.loads(canonical(each.to_json()))) for each in COMMANDS]
        again = state_after(*read)
        assert snapshot(state, KeptAnswers()) == snapshot(again, KeptAnswers())
        back = restored(state)
        assert dict(back.principals) == dict(state.principals)
        assert back.people.groups == state.people.groups
        assert back.principals.timed.keys() == state.principals.timed.keys() == {"joe"}
        assert back.principals.with_digest(OLD)[1].is_over
        assert may_read(back, "jim", "wind > 4")

    def test_principals_of_logs_and_snapshots_of_before_are_read(self):
        old = {"do": "create_principal", "name": "ann", "role": "both", "verifier": OLD}
        old |= {"publish": {"weather": "true"}, "read": {}, "subscriptions": 5}
        state = state_after(CreateSchema(WEATHER), command_from_json(old))
        head, _, rest = snapshot(state, KeptAnswers()).partition(b"\n")
        read = json.loads(head)
        del read["groups"]
        kept = {"name", "role", "verifier", "publish", "read", "subscriptions", "boxes"}
        assert set(read["principals"][0]) == kept  # nothing else is written where there is nothing else to say
        again, _ = restore(canonical(read).encode() + b"\n" + rest, LINE, SMALL)
        assert dict(again.principals) == dict(state.principals)
        assert again.check(advertise("ann", "true")) is None

    def test_commands_without_what_is_new_are_written_as_before(self):
        written = CreatePrincipal("joe", "both", OLD).to_json()
        assert not {"groups", "ends", "boxes"} & written.keys()

    @pytest.mark.parametrize("command", [RotateToken("joe", NEW), EndToken("joe", OLD), JOE], ids=str)
    def test_the_stream_tells_no_verifier(self, command):
        (item,) = command_items(1, command, Done({}), {"request"})
        assert OLD not in str(item)
        assert NEW not in str(item)


class TestLargeCommands:
    def test_whatever_compares_filters_is_large_however_few_they_are(self):
        state = peopled(WINDY, JOE)
        rights, group = ChangePrincipal("joe", read={"*": "true"}), ChangeGroup("windy", read={"*": "true"})
        assert not any(map(state.is_large, (rights, group, RemoveGroup("windy"), JOE, WINDY)))
        done(state, ChangePrincipal("joe", groups={"windy": True}))
        assert all(map(state.is_large, (group, RemoveGroup("windy"))))
        assert not state.is_large(rights)
        done(state, subscribe("joe", "wind > 4"))
        assert state.is_large(rights)

    def test_whatever_withdraws_all_is_large_if_that_is_much(self):
        state = peopled(*(subscribe("ben", "wind > 4") for _ in range(20)))
        much = RemovePrincipal("ben"), EndToken("ben", DIGEST), RotateToken("ben", NEW, withdraw=True)
        assert not any(map(state.is_large, much))
        done(state, subscribe("ben", "wind > 4"))
        assert all(map(state.is_large, much))
        assert not state.is_large(RotateToken("ben", NEW))
