"""The controller as a service: the HTTP API, the networks it runs on, in-band requests, and collecting for a lake."""

from pleroma.service.collecting.collecting_settings import CollectingSettings
from pleroma.service.deployment import Deployment
from pleroma.service.http.application import create_app
from pleroma.service.http.connections.server_certificate import CertificateFiles
from pleroma.service.planes.broker_plane import BrokerSettings
from pleroma.service.planes.openflow_plane import OpenFlowSettings
from pleroma.service.running_service import Running
from pleroma.service.serve import serve
from pleroma.service.service_settings import ServiceSettings
from pleroma.service.whole_service import running

__all__ = [
    "BrokerSettings",
    "CertificateFiles",
    "CollectingSettings",
    "Deployment",
    "OpenFlowSettings",
    "Running",
    "ServiceSettings",
    "create_app",
    "running",
    "serve",
]
