"""Where rules live: the embedded network, live event by event and in batches."""

from pleroma.switches.batch import forward
from pleroma.switches.compiled import CompiledTable
from pleroma.switches.counters import PortCounters, SwitchCounters, Traffic
from pleroma.switches.forwarding import Forwarding
from pleroma.switches.installation import Installation, Refusal
from pleroma.switches.network import EmbeddedNetwork
from pleroma.switches.packet import EVENT_SIZE, Delivery, Packet
from pleroma.switches.table import Hits, SimulatedTable
from pleroma.switches.wiring import Line, Wiring

__all__ = [
    "EVENT_SIZE",
    "CompiledTable",
    "Delivery",
    "EmbeddedNetwork",
    "Forwarding",
    "Hits",
    "Installation",
    "Line",
    "Packet",
    "PortCounters",
    "Refusal",
    "SimulatedTable",
    "SwitchCounters",
    "Traffic",
    "Wiring",
    "forward",
]
