"""The HTTP API: schemas, hosts, advertisements, subscriptions, plans, flows, statistics and a live stream."""

from pleroma.service.app import create_app
from pleroma.service.serve import Running, running, serve
from pleroma.service.settings import ServiceSettings

__all__ = ["Running", "ServiceSettings", "create_app", "running", "serve"]
