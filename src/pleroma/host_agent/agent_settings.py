"""Where a host agent is, whom it asks, and the bounds of what its programs may take."""

from __future__ import annotations

from dataclasses import dataclass, fields

from pleroma.errors import SetupError


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """All are positive. One user of the machine has at most half of the programs and connections."""

    max_programs: int = 512
    max_connections: int = 2048
    """Connections to the API's socket, of all programs together."""
    max_queue_bytes: int = 4 * 2**20
    """Events that wait for one program, beyond what the system keeps for it."""
    max_body_bytes: int = 2**20
    """Of a request."""
    max_held_bytes: int = 32 * 2**20
    """Requests that have not come whole and answers that were not taken yet, of one user's programs together."""

    def __post_init__(self) -> None:
        for each in fields(self):
            if getattr(self, each.name) < 1:
                raise SetupError("must be positive", field=each.name, value=getattr(self, each.name))


@dataclass(frozen=True, slots=True)
class AgentSettings:
    url: str
    """The controller's address: http://, https://, inband:// or udp://."""
    socket: str
    """The path of the socket at which programs find the agent."""
    host: str = ""
    """The name that this machine asks to have as a host, where the network learns hosts."""
    group: str | None = None
    """Members of this group may use the agent; None: those of the agent's own group."""
    limits: AgentLimits = AgentLimits()
