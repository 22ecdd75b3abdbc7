"""Covers of collected subscriptions, computed as the controller computes them and remembered while a job runs."""

from __future__ import annotations

from collections.abc import Iterable

from pleroma.content import Filter
from pleroma.errors import PlanError
from pleroma.index import DzSet, Index, SelectiveIndex
from pleroma.pipeline.lake.landed import LandedPlan, RegistrationRow

MAX_COVERS = 200_000
"""Covers that are remembered, of subscriptions that may be gone and plans that may be over."""


class CoverCache:
    """A cover is kept by the epoch of the plan and the subscription's id, for as long as the filter is the same."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], tuple[Filter, DzSet]] = {}

    def covers(self, plan: LandedPlan, rows: Iterable[RegistrationRow]) -> list[DzSet]:
        """The cover of each subscription under a plan, in the order of the rows."""
        if len(self._known) > MAX_COVERS:
            self._known.clear()
        covers = []
        for row in rows:
            covered_filter, cover = self._known.get((plan.epoch, row.id), (None, DzSet()))
            if covered_filter != row.filter:
                cover = controller_cover(plan.plan.index, row.filter, plan.members)
                self._known[plan.epoch, row.id] = row.filter, cover
            covers.append(cover)
        return covers


def controller_cover(index: Index, wanted: Filter, max_members: int | None) -> DzSet:
    """The cover that the controller installs: a selective index that is quiet outside its rectangles is opened if a
    filter reaches there.
    """
    try:
        return index.cover(wanted, max_members=max_members)
    except PlanError:
        if not isinstance(index, SelectiveIndex):
            raise
        return index.opened().cover(wanted, max_members=max_members)
