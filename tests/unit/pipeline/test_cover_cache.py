"""Covers that are remembered are those that the index would give now."""

from datetime import UTC, datetime

import pytest

from pleroma.content import Filter
from pleroma.errors import PlanError
from pleroma.index import IndexPlan
from pleroma.pipeline import cover_cache
from pleroma.pipeline.cover_cache import CoverCache, controller_cover
from pleroma.pipeline.lake.landed import LandedPlan
from support.watch_cases import BY_PRICE, BY_VOLUME, MEMBERS, SCHEMA, subscriptions

ROWS = subscriptions(6)


def landed(epoch, index):
    return LandedPlan(datetime(2026, 11, 15, tzinfo=UTC), IndexPlan(epoch, index, MEMBERS))


def fresh(index, rows):
    return [controller_cover(index, row.filter, MEMBERS) for row in rows]


@pytest.fixture
def counted(monkeypatch):
    """The filters that were covered, and not remembered."""
    seen = []

    def cover(index, wanted, max_members):
        seen.append(wanted)
        return controller_cover(index, wanted, max_members)

    monkeypatch.setattr(cover_cache, "controller_cover", cover)
    return seen


def test_a_filter_is_covered_once_for_each_plan(counted):
    cache, first, second = CoverCache(), landed(1, BY_PRICE), landed(2, BY_VOLUME)
    for _ in range(2):
        assert cache.covers(first, ROWS) == fresh(BY_PRICE, ROWS)
        assert cache.covers(second, ROWS) == fresh(BY_VOLUME, ROWS)
    assert len(counted) == 2 * len(ROWS)


def test_another_filter_under_the_same_id_is_covered_anew(counted):
    cache, plan = CoverCache(), landed(1, BY_PRICE)
    cache.covers(plan, ROWS)
    changed = [ROWS[0]._replace(filter=Filter.parse(SCHEMA, "price < 7")), *ROWS[1:]]
    assert cache.covers(plan, changed) == fresh(BY_PRICE, changed)
    assert len(counted) == len(ROWS) + 1


def test_a_limit_that_no_cover_can_keep_is_an_error_of_the_plan():
    with pytest.raises(PlanError, match="at least one member"):
        controller_cover(BY_PRICE, ROWS[0].filter, 0)


def test_too_many_covers_are_forgotten_and_made_again(counted, monkeypatch):
    monkeypatch.setattr(cover_cache, "MAX_COVERS", len(ROWS) - 1)
    cache, plan = CoverCache(), landed(1, BY_PRICE)
    assert cache.covers(plan, ROWS) == cache.covers(plan, ROWS) == fresh(BY_PRICE, ROWS)
    assert len(counted) == 2 * len(ROWS)
