"""Events carried in software, for networks whose switches cannot: one socket, and exact matching behind it."""

from pleroma.broker.broker import Broker
from pleroma.broker.counters import BrokerCounters
from pleroma.broker.programs import Owner, Programs
from pleroma.broker.standing import Standing

__all__ = ["Broker", "BrokerCounters", "Owner", "Programs", "Standing"]
