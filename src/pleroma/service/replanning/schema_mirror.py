"""What the planning process knows of a schema: so that it is told only what has changed since."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from pleroma.content.batch import EventBatch
from pleroma.control import Registered
from pleroma.control.state.tree_choice import SchemaTrees
from pleroma.index import IndexPlan
from pleroma.replanning.decisions import Outcome
from pleroma.replanning.live_replanner import RegistrationNews, SchemaNews
from pleroma.replanning.plan_in_force import PlanInForce
from pleroma.routing import Topology


@dataclass(slots=True)
class SchemaMirror:
    """Of one schema and one process."""

    incarnation: int
    handed: tuple[Outcome, int | None] | None = None
    """What became of the plan or the trees that were proposed last, to be told once."""
    _told: dict[str, set[str]] = field(default_factory=lambda: {"subscription": set(), "advertisement": set()})
    _epoch: int | None = None
    _topology: Topology | None = None
    _trees: SchemaTrees | None = None

    @property
    def is_new(self) -> bool:
        return self._epoch is None

    def knows(self, registered: Registered) -> bool:
        """Whether the process was told of a registration."""
        return registered.id in self._told[registered.kind]

    def news(
        self,
        now: datetime,
        registered: list[Registered],
        in_force: IndexPlan,
        topology: Topology,
        trees: SchemaTrees,
        events: tuple[EventBatch, ...],
    ) -> SchemaNews:
        """What has changed since the last call; everything at the first. It may run in another thread."""
        plan = None
        if in_force.epoch != self._epoch:
            self._epoch = in_force.epoch
            plan = PlanInForce(in_force.epoch, in_force.index, in_force.members)
        network = None if topology == self._topology else topology
        on_trees = None if trees == self._trees else trees
        self._topology, self._trees = topology, trees
        handed, self.handed = self.handed, None
        return SchemaNews(
            now=now,
            subscriptions=self._changes("subscription", registered),
            advertisements=self._changes("advertisement", registered),
            plan=plan,
            topology=network,
            trees=on_trees,
            events=events,
            handed=handed,
        )

    def _changes(self, kind: str, registered: list[Registered]) -> RegistrationNews:
        held = {each.id: each for each in registered if each.kind == kind}
        told = self._told[kind]
        self._told[kind] = set(held)
        come = {each: (str(held[each].host), held[each].boxes) for each in held if each not in told}
        return RegistrationNews(come, sorted(told - held.keys()))
