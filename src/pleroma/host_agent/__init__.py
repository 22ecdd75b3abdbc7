"""The host agent: several programs of one machine behind its one event port, each with its own rights."""

from pleroma.host_agent.agent_settings import AgentSettings
from pleroma.host_agent.running_agent import HostAgent

__all__ = ["AgentSettings", "HostAgent"]
