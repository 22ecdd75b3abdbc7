"""How a service is deployed: where it listens, what network it runs on, and the settings of its parts."""

from __future__ import annotations

from dataclasses import dataclass, field

from pleroma.control import ControlSettings
from pleroma.control.state.tree_choice import TreeChoice
from pleroma.service.collecting.collecting_settings import CollectingSettings
from pleroma.service.http.connections.server_certificate import CertificateFiles
from pleroma.service.logs import LogSettings
from pleroma.service.planes.broker_plane import BrokerSettings
from pleroma.service.planes.openflow_plane import OpenFlowSettings
from pleroma.service.replanning.replanning_settings import ReplanningSettings
from pleroma.service.roles.process_role import ALL_ROLES, ProcessRole
from pleroma.service.service_settings import ServiceSettings

API_HOST = "127.0.0.1"
API_PORT = 8470


@dataclass(frozen=True, slots=True)
class Deployment:
    host: str = API_HOST
    port: int = API_PORT
    """0 takes a free one."""
    settings: ServiceSettings | None = None
    control: ControlSettings | None = None
    plane: OpenFlowSettings | BrokerSettings | None = None
    """OpenFlow switches that connect, or a broker at the UDP port of the same number; None is simulated switches."""
    collecting: CollectingSettings | None = None
    """Where there is one, what the pipeline needs goes into a lake."""
    replanning: ReplanningSettings | None = None
    """With these, the controller looks for better plans by itself. A broker, which wastes nothing, does not."""
    event_tags: bool = True
    """Whether events have tags, by which receivers know those that are not from the publisher that they name."""
    https: CertificateFiles | None = None
    """With these the API speaks HTTPS, and nothing else."""
    trees: TreeChoice | None = None
    """How trees are dealt out; None leaves it as the log has it, and is a single tree for a new log."""
    log: str | None = None
    """Where a log is that several processes share (`etcd://…/NAME`); None is a log of this process's own."""
    roles: frozenset[ProcessRole] = ALL_ROLES
    """What this process does, where several share a log."""
    logs: LogSettings = field(default_factory=LogSettings)
