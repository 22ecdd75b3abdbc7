"""Where everything is that a plan has to do with: the network of a moment, and who wants or publishes what where.

A plan is judged and learned for a situation. Where the network is not known, as in a lake of an earlier version, every
subscription counts as if it had a port of its own on one switch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from pleroma.content import Filter, Schema
from pleroma.control.state.tree_choice import UNKNOWN_TREES, DealtTree, SchemaTrees
from pleroma.evaluation.placement import Placement
from pleroma.routing import Family, HostId, SwitchId, Topology


class PlacedFilter(NamedTuple):
    """What a host asks for, or promises to publish."""

    host: HostId
    filter: Filter


@dataclass(frozen=True)
class NetworkSituation:
    """`topology` has the limits that count for the schema (`limits_that_count`); None if the network is not known."""

    schema: Schema
    subscriptions: tuple[PlacedFilter, ...]
    topology: Topology | None = None
    advertisements: tuple[PlacedFilter, ...] | None = None
    """None if it is not known who publishes: then every host may."""
    trees: SchemaTrees = UNKNOWN_TREES
    """On which the events travel. Where they are not known, that is one tree of low latency."""

    @classmethod
    def star(cls, schema: Schema, subscriptions: Iterable[Filter]) -> NetworkSituation:
        """Every subscription has a port of its own on one switch."""
        return cls(schema, tuple(PlacedFilter(HostId(str(n)), each) for n, each in enumerate(subscriptions)))

    @classmethod
    def placed(
        cls,
        schema: Schema,
        subscriptions: Iterable[PlacedFilter],
        topology: Topology | None,
        advertisements: Iterable[PlacedFilter] | None,
        trees: SchemaTrees = UNKNOWN_TREES,
    ) -> NetworkSituation:
        """The situation without what is at hosts that are away: that waits, and needs no rules."""

        def there(placed: Iterable[PlacedFilter]) -> tuple[PlacedFilter, ...]:
            return tuple(each for each in placed if topology is None or each.host in topology.host)

        promised = None if advertisements is None else there(advertisements)
        return cls(schema, there(subscriptions), topology, promised, trees)

    def on(self, topology: Topology) -> NetworkSituation:
        """The same on a network with other limits."""
        return replace(self, topology=topology)

    def on_trees(self, dealt: Iterable[DealtTree]) -> NetworkSituation:
        """The same with events on other trees."""
        return replace(self, trees=replace(self.trees, dealt=tuple(dealt)))

    @cached_property
    def families(self) -> Sequence[Family] | None:
        """The trees on the network; None if they are as the policy makes them."""
        if self.topology is None or not self.trees.dealt:
            return None
        return [each.family(self.topology) for each in self.trees.dealt]

    @property
    def filters(self) -> list[Filter]:
        """What is subscribed to, subscription by subscription."""
        return [each.filter for each in self.subscriptions]

    @property
    def sources(self) -> list[HostId] | None:
        """The hosts that publish, each once; None if that is not known."""
        return None if not self.advertisements else list(dict.fromkeys(each.host for each in self.advertisements))

    @cached_property
    def placement(self) -> Placement | None:
        """The situation as learning and judging need it; None where every subscription has a port of its own.

        There is one port towards a host: that of the tree on which most dz travel.
        """
        if self.topology is None:
            return None
        most = max(self.families or (), key=lambda family: family.region.atoms, default=None)
        homes = (each.host for each in self.subscriptions)
        return Placement.of(self.topology, homes, self.sources, None if most is None else most.tree)


def limits_that_count(
    topology: Topology, rooms: Mapping[SwitchId, int], used: Mapping[SwitchId, int] | None = None
) -> Topology:
    """The topology with the rules that each switch has left for a schema.

    A switch has no more than its limit, and no more than it turned out to have room for (`rooms`); the rules of other
    schemas are `used` already.
    """
    limits = {}
    for switch in topology.switches:
        known = [limit for limit in (topology.limits.get(switch), rooms.get(switch)) if limit is not None]
        if known:
            limits[switch] = max(min(known) - (used or {}).get(switch, 0), 1)
    return replace(topology, limits=limits)
