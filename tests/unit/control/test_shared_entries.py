"""What entries of a shared log say besides their request: who led when they came, and the region of a filter."""

import pytest

from pleroma.content import Filter
from pleroma.control import ChangeGroup, ChangePrincipal, ControlState, CreatePrincipal, CreateSchema, Done
from pleroma.control.kept_answers import KeptAnswers
from pleroma.control.log_fold import LogFold, log_body, read_body
from pleroma.control.state.command import Begin, CoveredFilter, Lead
from pleroma.control.state_snapshot import restore, snapshot
from pleroma.errors import LimitReached, NotAllowed, NotLeading
from pleroma.index import NOTHING
from support.control_cases import ANN, DIGEST, LINE, SMALL, WEATHER, advertise, subscribe


@pytest.fixture
def fold():
    made = LogFold(ControlState(LINE, SMALL), KeptAnswers())
    for position, command in enumerate((Begin(SMALL.to_json(), made.state.network), CreateSchema(WEATHER), ANN), 1):
        assert isinstance(made.fold(position, log_body(command)).result, Done)
    return made


def covered(fold, text, position, who="ann", kind=subscribe):
    """A registration whose region is that of another filter, so that it can be seen which one was used."""
    entry = fold.state.schemas["weather"]
    region = entry.index.cover(Filter.parse(WEATHER, text), max_members=4).under(entry.prefix)
    command = kind(who, "temperature < 2")
    object.__setattr__(command, "covered", CoveredFilter(position, (entry.number, entry.epoch), region))
    return command, region


class TestLeadership:
    def test_an_entry_of_the_process_that_leads_counts_and_one_of_an_earlier_leader_does_not(self, fold):
        assert fold.fold(4, log_body(Lead("one"))).result.value == {"leadership": 4}
        mine = log_body(subscribe("ann", "temperature < 2"), None, 4)
        assert isinstance(fold.fold(5, mine).result, Done)
        assert fold.fold(6, log_body(Lead("two"))).result.value == {"leadership": 6}
        refused = fold.fold(7, log_body(subscribe("ann", "temperature < 3"), None, 4)).result
        assert isinstance(refused.error, NotLeading)
        assert (refused.error.field, refused.error.value) == ("leadership", 4)
        assert list(fold.state.registrations) == ["s5"]
        assert isinstance(fold.fold(8, log_body(subscribe("ann", "temperature < 3"), None, 6)).result, Done)

    def test_whoever_leads_others_may_append(self, fold):
        fold.fold(4, log_body(Lead("one")))
        assert isinstance(fold.fold(5, log_body(subscribe("ann", "temperature < 2"))).result, Done)

    def test_what_was_refused_for_that_may_be_asked_again_under_its_key(self, fold):
        fold.fold(4, log_body(Lead("one")))
        asked = subscribe("ann", "temperature < 2")
        assert isinstance(fold.fold(5, log_body(asked, "k", 3)).result.error, NotLeading)
        assert fold.fold(6, log_body(asked, "k", 4)).result.value["id"] == "s6"
        assert fold.fold(7, log_body(asked, "k")).position == 6

    def test_a_snapshot_says_who_leads(self, fold):
        fold.fold(4, log_body(Lead("one")))
        state, _ = restore(snapshot(fold.state, fold.answers), LINE, SMALL)
        assert (state.leadership, state.rights_since) == (4, 3)


class TestCoveredFilters:
    def test_the_region_that_an_entry_tells_is_taken(self, fold):
        command, region = covered(fold, "temperature > 7", position=3)
        body = log_body(command, "k")
        assert fold.fold(4, body).result.value["members"] == len(region)
        assert fold.state.registrations["s4"].region == region
        assert fold.state.registrations["s4"].text == "temperature <= 1"

    def test_it_is_read_as_it_was_written_and_is_no_part_of_the_request(self, fold):
        command, _ = covered(fold, "temperature > 7", position=3)
        body = log_body(command, "k", 9)
        read = read_body(body)
        assert (read.key, read.command, read.leadership) == ("k", subscribe("ann", "temperature < 2"), 9)
        assert read.command.covered == command.covered
        assert read.request == log_body(subscribe("ann", "temperature < 2"), "k")
        again = read_body(read.request)
        assert (again.leadership, again.command.covered, again.request) == (None, None, read.request)
        assert read.body == body

    @pytest.mark.parametrize("plan", [(0, 9), (5, 1)])
    def test_the_region_of_another_plan_or_schema_is_found_anew(self, fold, plan):
        command, region = covered(fold, "temperature > 7", position=3)
        object.__setattr__(command, "covered", command.covered._replace(plan=plan))
        fold.fold(4, log_body(command))
        assert fold.state.registrations["s4"].region != region

    def test_rights_that_have_changed_since_are_checked(self, fold):
        fold.fold(4, log_body(CreatePrincipal("pat", "publisher", DIGEST, publish={"weather": "true"})))
        command, _ = covered(fold, "temperature > 7", 4, "pat", advertise)
        assert fold.state.rights_since == 4
        assert isinstance(fold.fold(5, log_body(ChangePrincipal("pat", publish={"weather": "wind < 4"}))).result, Done)
        assert fold.state.rights_since == 5
        assert isinstance(fold.fold(6, log_body(command)).result.error, NotAllowed)
        object.__setattr__(command, "covered", command.covered._replace(position=5))
        assert isinstance(fold.fold(7, log_body(command)).result, Done)  # it says that it was checked

    def test_a_refused_change_of_rights_changes_nothing(self, fold):
        fold.fold(4, log_body(ChangeGroup("nobody", publish={})))
        assert fold.state.rights_since == 3


def test_a_state_without_a_share_comes_to_the_same_but_for_the_rules(fold):
    gate = LogFold(ControlState(LINE, SMALL, NOTHING), KeptAnswers())
    history = [Begin(SMALL.to_json(), fold.state.network), CreateSchema(WEATHER), ANN]
    history += [advertise("ann", "true"), subscribe("ann", "temperature < 2"), subscribe("ann", "wind < 1")]
    whole = LogFold(ControlState(LINE, SMALL), KeptAnswers())
    for position, command in enumerate(history, 1):
        body = log_body(command, f"k{position}")
        theirs, ours = whole.fold(position, body), gate.fold(position, body)
        assert theirs.result.value == ours.result.value
    assert snapshot(gate.state, gate.answers) == snapshot(whole.state, whole.answers)
    assert sum(map(len, gate.state.router.tables.values())) == 0 < sum(map(len, whole.state.router.tables.values()))
    restored, _ = restore(snapshot(whole.state, whole.answers), LINE, SMALL, NOTHING)
    assert sum(map(len, restored.router.tables.values())) == 0


def test_publishers_have_numbers_that_packets_have_room_for(fold):
    last = fold.fold(2**32 - 1, log_body(advertise("ann", "true")))
    assert last.result.value["publisher"] == 2**32 - 1
    refused = fold.fold(2**32, log_body(advertise("ann", "true"))).result
    assert isinstance(refused.error, LimitReached)
    assert (refused.error.field, refused.error.value) == ("position", 2**32)
    assert isinstance(fold.fold(2**32 + 1, log_body(subscribe("ann", "true"))).result, Done)
    assert list(fold.state.registrations) == ["a4294967295", "s4294967297"]
