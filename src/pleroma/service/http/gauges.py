"""The state of the controller and the network as Prometheus reads it, at the moment it asks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from prometheus_client.core import Metric

import pleroma
from pleroma.control import Controller
from pleroma.control.trees_in_use import trees_in_use
from pleroma.service.collecting.influence_limit import InfluenceLimit
from pleroma.service.http.traffic_rates import TrafficRates
from pleroma.service.metric_families import counter, gauge
from pleroma.service.shares import Shares

_REPORTED = {
    "published": "Events that clients published",
    "unsent": "Published events that clients could not send and dropped",
    "overrun": "Datagrams that the kernel dropped at clients, since programs did not read them in time",
    "delivered": "Events that matched, at each subscription",
    "wanted": "Packets that came to a client and some subscription there wanted",
    "wasted": "Packets that came to a client and no subscription there wanted",
    "duplicates": "Matching events that came once more",
    "dropped": "Matching events that programs were too slow for",
    "forged": "Packets that came to a client and whose tag is not genuine",
    "missed": "Events that never came to who wants all, though later ones of their publisher did",
}
"""By counter: what clients report."""


class Measured(Protocol):
    """A part of the service that has metrics of its own."""

    def metrics(self) -> Iterable[Metric]: ...


def gauges(
    controller: Controller, rates: TrafficRates, influence: InfluenceLimit, streams: Shares, parts: Iterable[Measured]
) -> Iterator[Metric]:
    """Sums over all principals only, because reading metrics needs no token."""
    state = controller.state
    yield gauge("pleroma_build_info", "1, with the version of the service", [(pleroma.__version__, 1)], "version")
    yield gauge("pleroma_log_position", "Entries of the log that the state holds", [("", controller.position)])
    yield gauge("pleroma_installed_position", "Entries that the network has confirmed", [("", controller.installed)])
    yield gauge("pleroma_schemas", "Schemas", [("", len(state.schemas))])
    yield gauge("pleroma_principals", "Principals", [("", len(state.principals))])
    subscriptions = state.registrations.subscriptions
    kinds = {"advertisement": len(state.registrations) - subscriptions, "subscription": subscriptions}
    yield gauge("pleroma_registrations", "Advertisements and subscriptions in force", kinds.items(), "kind")
    yield gauge("pleroma_leases", "Leases that registrations stand under", [("", len(state.registrations.by_lease))])
    rules = [(str(switch), float(len(table))) for switch, table in state.router.tables.items()]
    yield gauge("pleroma_flow_rules", "Rules of a switch", rules, "switch")
    yield gauge("pleroma_trees", "Trees that carry a part of some schema", [("", len(trees_in_use(state)))])
    to_move = len(controller.schemas_on_other_trees)
    yield gauge("pleroma_schemas_to_move", "Schemas that are not yet on the trees that were chosen", [("", to_move)])
    epochs = [(name, float(entry.epoch)) for name, entry in state.schemas.items()]
    yield gauge("pleroma_plan_epoch", "Epoch of the plan in force", epochs, "schema")
    phases = {"settled": 0.0, "prepared": 1.0, "swapped": 2.0}
    changing = [(name, phases[state.plans.phase(name)]) for name in state.schemas]
    what = "Changing to another plan: 1 while switches are prepared, 2 while publishers adopt it, 0 otherwise"
    yield gauge("pleroma_plan_changing", what, changing, "schema")
    detours = sum(map(len, state.rules.detours.tables.values()))
    yield gauge("pleroma_detours", "Rules that stand only while a plan changes", [("", detours)])
    late = len(controller.plan_changes.stragglers)
    yield gauge("pleroma_plan_stragglers", "Advertisements that the last change of plans went on without", [("", late)])
    delays = controller.delays
    waiting = [(str(name), delays[name].seconds if name in delays else 0.0) for name in state.router.tables]
    what = "How long the oldest change that a switch has not confirmed has been waiting"
    yield gauge("pleroma_switch_unconfirmed_seconds", what, waiting, "switch")
    yield gauge("pleroma_streams", "Open event streams", [("", len(streams))])
    for part in parts:
        yield from part.metrics()
    what = "Samples that were left out, because their sender had handed over its share"
    yield counter("pleroma_samples_beyond_share", what, [("", influence.left_out)])
    for name, count in controller.client_counters.totals.items():
        yield counter(f"pleroma_events_{name}", _REPORTED[name], [("", count)])
    recent = {name: each["last_minute"]["waste_at_hosts"] for name, each in rates.by_schema().items()}
    what = "Part of the packets that came to hosts in the last minute and nobody there wanted"
    yield gauge(
        "pleroma_waste_at_hosts_ratio",
        what,
        [(name, part) for name, part in recent.items() if part is not None],
        "schema",
    )
