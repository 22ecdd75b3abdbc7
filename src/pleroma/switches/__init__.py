"""Where rules live: the embedded network, event by event, in batches, and live between processes."""

from pleroma.switches.batch import forward
from pleroma.switches.compiled import CompiledTable
from pleroma.switches.counters import HostCounters, PortCounters, SwitchCounters, Traffic
from pleroma.switches.forwarding import Forwarding
from pleroma.switches.installation import Installation, Refusal
from pleroma.switches.live import KernelDrops, LiveNetwork
from pleroma.switches.live_trace import Trace
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
    "HostCounters",
    "Installation",
    "KernelDrops",
    "Line",
    "LiveNetwork",
    "Packet",
    "PortCounters",
    "Refusal",
    "SimulatedTable",
    "SwitchCounters",
    "Trace",
    "Traffic",
    "Wiring",
    "forward",
]
