"""The HTTP API: schemas, hosts, advertisements, subscriptions, plans, flows, statistics and a live stream."""

from pleroma.service.app import create_app
from pleroma.service.broker import BrokerSettings
from pleroma.service.collecting import CollectingSettings
from pleroma.service.openflow import OpenFlowSettings
from pleroma.service.serve import Running, running, serve
from pleroma.service.settings import ServiceSettings

__all__ = [
    "BrokerSettings",
    "CollectingSettings",
    "OpenFlowSettings",
    "Running",
    "ServiceSettings",
    "create_app",
    "running",
    "serve",
]
