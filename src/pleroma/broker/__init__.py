"""Events carried in software, for networks whose switches cannot: one socket, and exact matching behind it."""

from pleroma.broker.broker import Broker
from pleroma.broker.broker_counters import BrokerCounters
from pleroma.broker.match_state import MatchState
from pleroma.broker.programs import ProgramOwner, Programs

__all__ = ["Broker", "BrokerCounters", "MatchState", "ProgramOwner", "Programs"]
