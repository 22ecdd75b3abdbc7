"""A plan has its own limit of dz per registration; plans that were written without one are still read."""

import json

import pytest

from pleroma.errors import PlanError
from pleroma.index import DEFAULT_MEMBERS, MAX_MEMBERS, GridIndex, IndexPlan
from support.old_plans import without_members
from support.strategies import STOCK

INDEX = GridIndex.regular(STOCK, 8)


@pytest.mark.parametrize("members", [1, 256, MAX_MEMBERS])
def test_the_limit_travels_with_the_plan(members):
    again = IndexPlan.loads(IndexPlan(3, INDEX, members).dumps())
    assert (again.epoch, again.members, again.index.to_json()) == (3, members, INDEX.to_json())


def test_the_limit_is_under_the_checksum():
    plan = IndexPlan(3, INDEX, 16)
    assert plan.checksum != IndexPlan(3, INDEX, 17).checksum
    with pytest.raises(PlanError, match="checksum"):
        IndexPlan.loads(json.dumps(json.loads(plan.dumps()) | {"members": 17}))


@pytest.mark.parametrize("members", [0, -1, MAX_MEMBERS + 1, True, "8", 8.0, None])
def test_what_is_no_limit_is_refused(members):
    with pytest.raises(PlanError) as caught:
        IndexPlan(1, INDEX, members)
    assert (caught.value.field, caught.value.value) == ("members", members)


def test_a_plan_without_a_limit_was_written_by_an_earlier_version():
    text = without_members(IndexPlan(2, INDEX))
    assert "members" not in json.loads(text)
    assert IndexPlan.loads(text) == IndexPlan(2, INDEX, DEFAULT_MEMBERS)
    with pytest.raises(PlanError, match="checksum"):
        IndexPlan.loads(json.dumps(json.loads(text) | {"epoch": 3}))


def test_what_stands_beside_a_plan_is_under_its_checksum_and_no_part_of_it():
    plan = IndexPlan(2, INDEX, 16)
    text = plan.dumps({"predicted": {"rules": 40}})
    assert json.loads(text)["predicted"] == {"rules": 40}
    assert IndexPlan.loads(text) == plan
    with pytest.raises(PlanError, match="checksum"):
        IndexPlan.loads(text.replace("40", "41"))
