"""What `plan apply` says of a plan: predicted when it was made, expected by the controller, and why the two differ."""

import pytest

from pleroma.cli.plan_expectation import PlanExpectation
from pleroma.cli.plan_file import StoredPlan
from pleroma.errors import ControllerAway, PlanError, RequestRefused
from pleroma.index import GridIndex, IndexPlan
from support.old_plans import without_members
from support.strategies import STOCK

PLAN = IndexPlan(1, GridIndex.regular(STOCK, 8), 64)
AT_HOSTS = {"waste_at_hosts": 0.1, "rules": 1990, "subscriptions": 200}
FORECAST = {
    "events": 500,
    "subscriptions": 200,
    "planned": {"waste_at_hosts": 0.11, "rules": 1800},
    "in_force": {"waste_at_hosts": 0.8, "rules": 300},
}


class Asked:
    """A controller that says one thing."""

    def __init__(self, answer):
        self.answer, self.asked = answer, []

    def ask(self, *question):
        self.asked.append(question)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_both_are_said_and_agree():
    remote = Asked(FORECAST)
    told = PlanExpectation.ask(remote, "/v1/schemas/stock/plan", StoredPlan(PLAN, AT_HOSTS))
    assert remote.asked == [("POST", "/v1/schemas/stock/plan/forecast", {"index": PLAN.index.to_json(), "members": 64})]
    assert told.lines() == [
        "predicted: 10.0% waste at hosts, 1,990 rules, 200 subscriptions",
        "expected: 11.0% waste at hosts, 1,800 rules, 200 subscriptions; by the plan in force 80.0%, 300 rules",
    ]
    assert told.figures() == {"predicted": AT_HOSTS, "expected": FORECAST}


@pytest.mark.parametrize(
    ("stored", "changed", "why"),
    [
        (StoredPlan(PLAN, AT_HOSTS), {"subscriptions": 48}, "it is for 200 subscriptions, and there are 48"),
        (StoredPlan(PLAN, AT_HOSTS), {"events": 0}, "nothing was sampled yet"),
        (StoredPlan(PLAN, AT_HOSTS), {}, "events or hosts are others"),
        (StoredPlan(PLAN, AT_HOSTS, has_members=False), {}, "no number of cells"),
        (StoredPlan(PLAN, {"waste_at_subscriptions": 0.1}), {}, "a port for each subscription"),
    ],
)
def test_it_is_said_why_they_differ(stored, changed, why):
    other = FORECAST | {"planned": {"waste_at_hosts": 0.5, "rules": 10}} | changed
    assert why in PlanExpectation(stored, other).lines()[-1]


@pytest.mark.parametrize(
    "error",
    [ControllerAway("it took too long"), RequestRefused("it took too long", status=409, code="tuning_error")],
)
def test_a_controller_that_cannot_tell_is_no_reason_not_to_go_on(error):
    told = PlanExpectation.ask(Asked(error), "/plan", StoredPlan(PLAN))
    assert told.lines() == ["expected: not known, it took too long"]
    assert told.figures() == {"predicted": {}}


def test_a_plan_without_a_number_of_cells_is_forecast_with_that_in_force():
    remote = Asked(FORECAST)
    PlanExpectation.ask(remote, "/plan", StoredPlan(PLAN, has_members=False))
    assert remote.asked[0][2]["members"] is None


def test_a_file_has_the_plan_and_its_prediction(tmp_path):
    path = tmp_path / "plan.json"
    StoredPlan(PLAN, AT_HOSTS).write(path)
    assert StoredPlan.read(path) == StoredPlan(PLAN, AT_HOSTS)
    assert IndexPlan.loads(path.read_text(encoding="utf-8")) == PLAN
    path.write_text(PLAN.dumps({"predicted": {"rules": "many", "waste_at_hosts": 0.5}}), encoding="utf-8")
    assert StoredPlan.read(path).predicted == {"waste_at_hosts": 0.5}
    path.write_text(without_members(PLAN), encoding="utf-8")
    old = StoredPlan.read(path)
    assert (old.has_members, old.predicted) == (False, {})
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(PlanError, match="is no plan"):
        StoredPlan.read(path)
