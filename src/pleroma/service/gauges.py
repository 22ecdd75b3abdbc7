"""The state of the controller and the network as Prometheus reads it, at the moment it asks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from prometheus_client.core import Metric

from pleroma.control import Controller
from pleroma.service.metrics import counter, gauge
from pleroma.switches.counters import HostCounters
from pleroma.switches.live import LiveNetwork


def gauges(controller: Controller, network: LiveNetwork) -> Iterator[Metric]:
    """Sums over all principals: who reads this needs no token."""
    state = controller.state
    yield gauge("pleroma_log_position", "Entries of the log that the state holds", [("", controller.position)])
    yield gauge("pleroma_installed_position", "Entries that the network has confirmed", [("", controller.installed)])
    yield gauge("pleroma_schemas", "Schemas", [("", len(state.schemas))])
    yield gauge("pleroma_principals", "Principals", [("", len(state.principals))])
    subscriptions = sum(each.startswith("s") for each in state.registrations)
    kinds = {"advertisement": len(state.registrations) - subscriptions, "subscription": subscriptions}
    yield gauge("pleroma_registrations", "Advertisements and subscriptions in force", kinds.items(), "kind")
    rules = [(str(switch), float(len(table))) for switch, table in state.router.tables.items()]
    yield gauge("pleroma_flow_rules", "Rules of a switch", rules, "switch")
    epochs = [(name, float(entry.epoch)) for name, entry in state.schemas.items()]
    yield gauge("pleroma_plan_epoch", "Epoch of the plan in force", epochs, "schema")
    unsaved, behind = controller.snapshot_failure is not None, controller.network_failure is not None
    yield gauge("pleroma_snapshot_failed", "1 if the last snapshot could not be saved", [("", unsaved)])
    yield gauge("pleroma_network_behind", "1 while the network refuses rules", [("", behind)])
    yield from _traffic(network)
    for name, count in controller.statistics.totals.items():
        yield counter(f"pleroma_events_{name}", f"Events that clients reported as {name}", [("", count)])


def _traffic(network: LiveNetwork) -> Iterator[Metric]:
    attached = [(str(host), float(count)) for host, count in network.sessions().items()]
    yield gauge("pleroma_attachments", "Programs admitted to a host", attached, "host")
    totals = {each.name: sum(getattr(x, each.name) for x in network.hosts.values()) for each in fields(HostCounters)}
    yield counter("pleroma_packets", "Packets at the hosts' ports, by what became of them", totals.items(), "fate")
    switches = network.switches
    lookups = [(str(name), float(counted.lookups)) for name, counted in switches.items()]
    misses = [(str(name), float(counted.misses)) for name, counted in switches.items()]
    yield counter("pleroma_switch_lookups", "Packets that a switch looked up", lookups, "switch")
    yield counter("pleroma_switch_misses", "Packets that met no rule", misses, "switch")
