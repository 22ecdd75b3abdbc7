"""What the driver does with closed windows: each is published once, and a plan handed over once, whenever it dies."""

from dataclasses import replace
from datetime import timedelta
from shutil import copytree as _copytree

import pytest

from pleroma.errors import ControllerAway, PlanChanging, PlanError
from pleroma.evaluation.judge import judge
from pleroma.index import GridIndex, IndexPlan, Waste
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.lake_table import LakeTable
from pleroma.pipeline.lake.landed import ReportedCounters, ReportRow
from pleroma.pipeline.lake.moments import UNIX_EPOCH
from pleroma.pipeline.lake_situation import situation_of
from pleroma.pipeline.watch.journal import Journal
from pleroma.pipeline.watch.plan_holder import LakePlanHolder
from pleroma.pipeline.watch.replanner import Replanner
from pleroma.pipeline.watch.window_counts import LakeHistory, WindowCounter
from pleroma.replanning.decisions import Decision, WatchSettings
from pleroma.replanning.forecast import forecast
from pleroma.replanning.proposals import Proposal, is_better
from pleroma.replanning.reported_counts import ReportedCounts
from pleroma.replanning.windows import TrafficWindow
from pleroma.selection.traffic_summary import summarise_traffic
from support.watch_cases import (
    AN_HOUR_BEFORE,
    BEGIN,
    BY_PRICE,
    BY_VOLUME,
    LINE,
    MEMBERS,
    SCHEMA,
    WINDOW,
    Recorded,
    land,
    new_lake,
    placed_lake,
    subscriptions,
)

SETTINGS = WatchSettings(window=10, threshold=0.3, patience=2, cool_down=20, least=100, newcomers=0, draw=2000)
US = timedelta(microseconds=1)
BY_BOTH = GridIndex(SCHEMA, (0, 1) * 6)
FOUND_MEMBERS = 300


@pytest.fixture
def quickly(monkeypatch):
    """One technique in place of all."""

    def found(in_force, gathered, situation, _):
        subscriptions = situation.filters
        before, after = (judge(index, subscriptions, gathered.judging, MEMBERS) for index in (in_force.index, BY_BOTH))
        return Proposal("both", BY_BOTH, FOUND_MEMBERS, before.waste, after.waste, after.rules, {})

    monkeypatch.setattr("pleroma.pipeline.watch.replanner.propose", found)


def gathering(lake):
    """In this process."""

    def gathered(start, end, subscriptions):
        return summarise_traffic(lake.events("stock", start, end), subscriptions, draw=SETTINGS.draw)

    return gathered


def replanner(lake, controller, told, settings=SETTINGS, dry=False):
    return Replanner(lake, SCHEMA, settings, controller, gathering(lake), told, dry)


def closing(lake, first, last, length=WINDOW):
    """The cells of some windows, as the executors count them."""
    counter = WindowCounter(SCHEMA, LakeHistory(lake, "stock"), length // US)
    windows = {}
    for batch in lake.event_table("stock").rows().to_batches():
        for start, _, cells in counter.count(batch):
            number = (UNIX_EPOCH + start * US - BEGIN) // length
            if first <= number <= last:
                kept = windows.setdefault(UNIX_EPOCH + start * US, {})
                for cell, n in cells.items():
                    kept[cell] = kept.get(cell, 0) + n
    return windows


def shifting(folder, count=8, shift=4, **more):
    lake = new_lake(folder)
    for number in range(count):
        land(lake, number, shifted=number >= shift, **more)
    return lake


def one_by_one(made, lake, first, last):
    in_turn(made, closing(lake, first, last))


def in_turn(made, windows):
    for start in sorted(windows):
        made.close_windows({start: windows[start]})


def said(told):
    return [(each.window - BEGIN) // WINDOW for each in told if isinstance(each, Decision) and each.reason]


def test_a_shift_is_noticed_and_a_better_plan_handed_over(tmp_path):
    lake, told = shifting(tmp_path), []
    controller = Recorded(lake=lake)
    made = replanner(lake, controller, told.append)
    one_by_one(made, lake, 0, 7)
    windows = [each for each in told if isinstance(each, TrafficWindow)]
    assert [each.start for each in windows] == [BEGIN + n * WINDOW for n in range(8)]
    assert [each.waste.rate > 0.3 for each in windows] == [False] * 4 + [True] * 4
    assert said(told) == [5]
    ((epoch, index),) = controller.taken
    (decision,) = Journal(lake, "stock").decisions()
    assert (epoch, decision.outcome, decision.new_epoch) == (1, "adopted", 2)
    assert decision.after.rate < 0.1 < 0.7 < decision.before.rate
    assert (decision.learned.start, decision.learned.end) == (windows[4].start, windows[5].end)  # not before the shift
    land(lake, 8, shifted=True, epoch=2)
    land(lake, 9, shifted=False, epoch=2)
    one_by_one(made, lake, 8, 9)
    after, back = [each for each in told if isinstance(each, TrafficWindow)][-2:]
    assert after.waste.rate < 0.1
    assert after.drift < 0.3 < back.drift  # compared with what plan 2 was made from
    assert index.to_json() != BY_PRICE.to_json()


@pytest.mark.usefixtures("quickly")
def test_windows_that_close_together_are_all_published_and_the_last_decides(tmp_path):
    lake, told = shifting(tmp_path), []
    controller = Recorded()
    replanner(lake, controller, told.append).close_windows(closing(lake, 0, 7))
    assert len(Journal(lake, "stock").windows()) == 8
    assert said(told) == [7]
    assert len(controller.taken) == 1


@pytest.mark.usefixtures("quickly")
def test_what_was_said_is_not_said_again(tmp_path):
    lake, told, again = shifting(tmp_path), [], []
    controller = Recorded()
    one_by_one(replanner(lake, controller, told.append), lake, 0, 7)
    versions = [lake.table(name).version for name in ("windows", "decisions")]
    one_by_one(replanner(lake, controller, again.append), lake, 0, 7)
    assert again == []
    assert len(controller.taken) == 1
    assert [lake.table(name).version for name in ("windows", "decisions")] == versions


def copytree(source, target):
    return str(_copytree(source, target))


class Died(Exception):
    pass


def dying(step, after):
    """Before, or after, the step of this number it ends; steps are writing a row, telling, handing over."""
    done = []

    def counted(real):
        def wrapped(*arguments, **more):
            if len(done) == step and not after:
                raise Died
            value = real(*arguments, **more)
            done.append(real)
            if len(done) == step + 1 and after:
                raise Died
            return value

        return wrapped

    return counted, done


@pytest.mark.usefixtures("quickly")
@pytest.mark.parametrize("after", [False, True])
def test_whenever_it_dies_the_next_process_ends_with_the_same(tmp_path, after):
    """It is killed before, or after, every single thing that it does."""
    landed = shifting(tmp_path / "landed", 6)
    windows = closing(landed, 3, 5)
    whole = Lake.at(copytree(tmp_path / "landed", tmp_path / "whole"))
    in_turn(replanner(whole, Recorded(), lambda _: None), windows)
    wanted = Journal(whole, "stock")
    step, total = 0, None
    while total is None or step < total:
        lake = Lake.at(copytree(tmp_path / "landed", tmp_path / f"dies at {step}"))
        controller = Recorded()
        counted, done = dying(step, after)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LakeTable, "land", counted(LakeTable.land))
            patch.setattr(LakeTable, "rewrite", counted(LakeTable.rewrite))
            patch.setattr(controller, "put", counted(controller.put))
            try:
                in_turn(replanner(lake, controller, counted(lambda _: None)), windows)
                total = len(done)
            except Died:
                pass
        controller = controller.again()
        in_turn(replanner(lake, controller, lambda _: None), windows)
        journal = Journal(lake, "stock")
        assert journal.windows() == wanted.windows()
        (found,), (expected,) = journal.decisions(), wanted.decisions()
        assert replace(found, seconds=None) == replace(expected, seconds=None)
        assert len(controller.taken) == 1, step
        step += 1
    assert step > 8


@pytest.mark.usefixtures("quickly")
def test_a_plan_that_changes_meanwhile_is_left_alone(tmp_path):
    lake, told = shifting(tmp_path), []

    class Moving(Recorded):
        """Somebody else is faster than the tuner."""

        def put(self, index, members, epoch, predicted=None):
            self.epoch, self.index = 7, BY_VOLUME
            return super().put(index, members, epoch, predicted)

    controller = Moving()
    one_by_one(replanner(lake, controller, told.append), lake, 0, 6)
    (decision,) = Journal(lake, "stock").decisions()
    assert (decision.outcome, controller.taken) == ("moved", [])
    other = shifting(tmp_path / "other")
    hand_made = Recorded(epoch=4)  # in force, while all these events were sent by plan 1
    one_by_one(replanner(other, hand_made, told.append), other, 0, 6)
    (decision,) = Journal(other, "stock").decisions()
    assert (decision.outcome, decision.technique, hand_made.taken) == ("moved", None, [])


@pytest.mark.usefixtures("quickly")
@pytest.mark.parametrize("error", [ControllerAway("nobody answers"), PlanChanging("one moment")])
def test_a_plan_that_cannot_be_handed_over_now_is_handed_over_later(tmp_path, error):
    lake, told = shifting(tmp_path), []

    class Away(Recorded):
        away = True

        def put(self, index, members, epoch, predicted=None):
            if self.away:
                raise error
            return super().put(index, members, epoch, predicted)

    controller = Away()
    made = replanner(lake, controller, told.append)
    one_by_one(made, lake, 0, 6)
    (decision,) = Journal(lake, "stock").decisions()
    assert (decision.outcome, controller.taken) == ("handing", [])
    controller.away = False
    one_by_one(replanner(lake, controller, told.append), lake, 7, 7)
    (decision,) = Journal(lake, "stock").decisions()
    assert (decision.outcome, decision.new_epoch, len(controller.taken)) == ("adopted", 2, 1)
    waste = {f"waste_at_{decision.waste_at}": decision.after.rate}
    assert controller.predicted == waste | {"rules": decision.rules}
    assert (decision.members, controller.members) == (FOUND_MEMBERS, FOUND_MEMBERS)


@pytest.mark.usefixtures("quickly")
def test_a_controller_that_is_gone_for_good_is_not_surprised_with_an_old_plan(tmp_path):
    lake = shifting(tmp_path, 8)

    class Away(Recorded):
        def put(self, *_):
            raise ControllerAway("nobody answers")

    settings = replace(SETTINGS, period=60)
    controller = Away()
    made = replanner(lake, controller, lambda _: None, settings)
    one_by_one(made, lake, 4, 7)
    for number in (14, 15):
        land(lake, number, shifted=True)
    one_by_one(made, lake, 14, 14)
    outcomes = [each.outcome for each in Journal(lake, "stock").decisions()]
    assert outcomes[0] == "away"


@pytest.mark.usefixtures("quickly")
def test_a_second_replanner_of_the_same_lake_leaves_the_first_ones_word(tmp_path):
    lake = shifting(tmp_path, 6)
    windows = closing(lake, 3, 5)
    first, second = Recorded(), Recorded(epoch=9)
    one, other = (replanner(lake, controller, lambda _: None) for controller in (first, second))
    for start in sorted(windows):
        for each in (one, other):
            each.close_windows({start: windows[start]})
    (decision,) = Journal(lake, "stock").decisions()
    assert (decision.outcome, len(first.taken), second.taken) == ("adopted", 1, [])
    assert Journal(lake, "stock").begun() == BEGIN + 3 * WINDOW


@pytest.mark.usefixtures("quickly")
def test_a_controller_that_is_away_from_the_start_stops_no_window(tmp_path):
    lake, told = shifting(tmp_path), []

    class Away(Recorded):
        def current(self):
            raise ControllerAway("nobody answers")

    one_by_one(replanner(lake, Away(), told.append), lake, 0, 7)
    assert len(Journal(lake, "stock").windows()) == 8
    assert [each.outcome for each in Journal(lake, "stock").decisions()] == ["away"]


@pytest.mark.usefixtures("quickly")
def test_what_the_controller_refuses_is_recorded_and_the_job_goes_on(tmp_path):
    lake, told = shifting(tmp_path), []

    class Refusing(Recorded):
        def put(self, *_):
            raise PlanError("6 bits are more than there are", field="index")

    one_by_one(replanner(lake, Refusing(), told.append), lake, 0, 7)
    (decision,) = Journal(lake, "stock").decisions()
    assert decision.outcome == "failed"
    assert "6 bits" in decision.detail


@pytest.mark.usefixtures("quickly")
def test_subscriptions_that_are_gone_are_named_and_the_job_goes_on(tmp_path):
    lake, told = shifting(tmp_path), []
    for path in (tmp_path / "subscriptions").rglob("*.parquet"):
        path.unlink()
    settings = replace(SETTINGS, period=30)
    one_by_one(replanner(lake, Recorded(), told.append, settings), lake, 0, 3)
    windows = [each for each in told if isinstance(each, TrafficWindow)]
    assert [(each.events, each.deliveries) for each in windows] == [(300, 0)] * 4
    (decision,) = Journal(lake, "stock").decisions()
    assert decision.outcome == "failed"
    assert "no subscriptions" in decision.detail
    assert {each.table for each in lake.refused()} == {"subscriptions"}


@pytest.mark.usefixtures("quickly")
def test_a_dry_run_finds_the_plan_and_keeps_it(tmp_path):
    lake, told = shifting(tmp_path), []
    controller = Recorded()
    one_by_one(replanner(lake, controller, told.append, dry=True), lake, 0, 7)
    (decision,) = Journal(lake, "stock").decisions()
    assert (decision.outcome, controller.taken) == ("dry", [])
    assert decision.after.rate < decision.before.rate


@pytest.mark.usefixtures("quickly")
def test_a_dry_run_leaves_a_plan_that_another_is_about_to_hand_over(tmp_path):
    lake = shifting(tmp_path)

    class Away(Recorded):
        def put(self, *_):
            raise ControllerAway("nobody answers")

    one_by_one(replanner(lake, Away(), lambda _: None), lake, 0, 5)
    before = Journal(lake, "stock").decisions()
    assert [each.outcome for each in before] == ["handing"]
    one_by_one(replanner(lake, LakePlanHolder(lake, "stock"), lambda _: None, dry=True), lake, 6, 6)
    assert Journal(lake, "stock").decisions() == before
    controller = Recorded()
    one_by_one(replanner(lake, controller, lambda _: None), lake, 7, 7)
    assert [each.outcome for each in Journal(lake, "stock").decisions()] == ["adopted"]
    assert len(controller.taken) == 1


@pytest.mark.usefixtures("quickly")
def test_a_plan_that_is_hardly_better_is_not_worth_a_change(tmp_path):
    lake, told = shifting(tmp_path), []
    controller = Recorded()
    one_by_one(replanner(lake, controller, told.append, replace(SETTINGS, margin=1.0)), lake, 0, 7)
    (decision,) = Journal(lake, "stock").decisions()
    assert (decision.outcome, controller.taken) == ("not_better", [])


@pytest.mark.parametrize(
    ("before", "after", "better"),
    [
        (Waste(200, 100), Waste(189, 100), True),
        (Waste(200, 100), Waste(191, 100), False),  # 9 % of what was wasted
        (Waste(10_000, 9_950), Waste(9_960, 9_950), False),  # hardly anything was
        (Waste(100, 100), Waste(100, 100), False),
        (Waste(200, 100), Waste(220, 100), False),
    ],
)
def test_better_is_by_a_margin_and_a_floor(before, after, better):
    assert is_better(before, after, WatchSettings(margin=0.1, floor=0.01)) is better


@pytest.mark.usefixtures("quickly")
def test_an_empty_stretch_is_counted_and_reports_stand_beside_predictions(tmp_path):
    lake, told = new_lake(tmp_path), []
    for number in (0, 5):
        land(lake, number)
    for seconds, wasted in ((1, 10), (9, 20), (11, 400)):
        rows = ReportRow("s1", "ann", 100, wasted=wasted), ReportRow("s2", "bob", 1, wasted=1)
        lake.land_reports([ReportedCounters("stock", BEGIN + timedelta(seconds=seconds), rows)])
    made = replanner(lake, Recorded(), told.append)
    one_by_one(made, lake, 0, 0)
    made.close_windows({})
    one_by_one(made, lake, 5, 5)
    first, second = (each for each in told if isinstance(each, TrafficWindow))
    assert first.reported == ReportedCounts(202, wasted=32)
    assert (second.empty_before, second.reported) == (4, None)


def test_a_plan_is_made_for_the_network_of_the_lake(tmp_path):
    lake, controller = placed_lake(tmp_path), Recorded()
    for number in range(8):
        land(lake, number, shifted=number >= 4)
    one_by_one(replanner(lake, controller, lambda _: None), lake, 0, 7)
    (decision,) = Journal(lake, "stock").decisions()
    assert decision.outcome == "adopted"
    situation = situation_of(lake, "stock", decision.end)
    assert situation.topology.limits == {"R2": 30, "R3": 50}
    ((_, index),) = controller.taken
    gathered = gathering(lake)(decision.learned.start, decision.learned.end, situation.filters)
    predicted = forecast(situation, index, decision.members, gathered.judging)
    assert (decision.after, decision.rules_by_switch) == (predicted.at_hosts, predicted.rules)
    assert decision.rules == max(predicted.rules.values())
    assert predicted.wanted_rules == {}  # it keeps to what every switch has room for
    assert predicted.rules[LINE.switches[-1]] > 0  # where all events come from, and none go to
    before = forecast(situation, BY_PRICE, MEMBERS, gathered.judging)
    assert decision.before == before.at_hosts


def test_subscriptions_that_the_plan_does_not_know_are_a_reason_to_look(tmp_path):
    few = subscriptions()[:4]
    lake, told = new_lake(tmp_path, rows=few), []
    lake.land_plan(IndexPlan(2, BY_PRICE, MEMBERS), AN_HOUR_BEFORE)
    for number in range(8):
        land(lake, number, epoch=2)
    lake.land_subscriptions("stock", BEGIN + 3 * WINDOW + WINDOW / 2, [*few, *subscriptions()[4:8]])
    settings = replace(SETTINGS, threshold=1.0, newcomers=0.4)
    made = replanner(lake, Recorded(epoch=2), told.append, settings)
    one_by_one(made, lake, 0, 3)
    assert [(each.reason, said([each])) for each in Journal(lake, "stock").decisions()] == [("subscriptions", [3])]
    one_by_one(replanner(lake, Recorded(epoch=2), told.append, settings), lake, 4, 7)  # these it has looked at
    assert len(Journal(lake, "stock").decisions()) == 1


@pytest.mark.usefixtures("quickly")
def test_the_plan_that_a_schema_begins_with_knows_of_nobody(tmp_path):
    lake = new_lake(tmp_path)
    land(lake, 0)
    one_by_one(replanner(lake, Recorded(), lambda _: None, replace(SETTINGS, threshold=1.0, newcomers=1.0)), lake, 0, 0)
    assert [each.reason for each in Journal(lake, "stock").decisions()] == ["subscriptions"]


def test_before_there_is_traffic_plans_are_made_for_imagined_events(tmp_path):
    lake = new_lake(tmp_path, rows=[])
    lake.land_subscriptions("stock", BEGIN, subscriptions())
    land(lake, 0, count=5)
    controller = Recorded()

    def unasked(*_):
        raise AssertionError("five events are too few to learn from")

    settings = replace(SETTINGS, newcomers=0.25)
    Replanner(lake, SCHEMA, settings, controller, unasked, lambda _: None).close_windows(closing(lake, 0, 0))
    (decision,) = Journal(lake, "stock").decisions()
    assert (decision.reason, decision.outcome, len(controller.taken)) == ("subscriptions", "adopted", 1)
    assert decision.after.rate < decision.before.rate / 2


def test_decisions_of_an_earlier_version_are_read(tmp_path):
    lake = shifting(tmp_path)
    one_by_one(replanner(lake, Recorded(), lambda _: None), lake, 0, 5)
    (decision,) = Journal(lake, "stock").decisions()
    old = {name: each for name, each in decision.to_json().items() if name not in ("members", "rules_by_switch")}
    assert Decision.from_json(old) == replace(decision, members=None, rules_by_switch=None)
