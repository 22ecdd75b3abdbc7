"""The HTTP API: schemas, hosts, advertisements, subscriptions, plans, flows, statistics and a live stream."""

from pleroma.service.collecting.collecting_settings import CollectingSettings
from pleroma.service.deployment import Deployment
from pleroma.service.http.application import create_app
from pleroma.service.planes.broker_plane import BrokerSettings
from pleroma.service.planes.openflow_plane import OpenFlowSettings
from pleroma.service.serve import Running, running, serve
from pleroma.service.service_settings import ServiceSettings

__all__ = [
    "BrokerSettings",
    "CollectingSettings",
    "Deployment",
    "OpenFlowSettings",
    "Running",
    "ServiceSettings",
    "create_app",
    "running",
    "serve",
]
