"""The rules that the controller wants on every switch, in the form in which an event can be followed through them."""

from __future__ import annotations

from collections.abc import Mapping

from pleroma.routing import Admissions, FlowTable, Router, SwitchId, Topology
from pleroma.switches.tracing.meeting import TracedTables


def wanted_rules(
    topology: Topology, router: Router, detours: Router, admissions: Admissions
) -> Mapping[SwitchId, TracedTables]:
    """The wanted rules of each switch of a topology. They are views: they change with the router."""
    nothing = FlowTable()
    return {
        switch: TracedTables(
            router.tables.get(switch, nothing),
            detours.tables.get(switch, nothing),
            {host.port: admissions.of(host.name) for host in topology.hosts_of[switch]},
            router.exact(switch) if switch in router.coarsened else None,
        )
        for switch in topology.switches
    }
