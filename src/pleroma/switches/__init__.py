"""Where rules live: the embedded network, event by event, in batches, and live between processes."""

from pleroma.switches.live.live_network import KernelDrops, LiveNetwork
from pleroma.switches.simulated.batch_forwarding import forward
from pleroma.switches.simulated.cables import Cables, Line
from pleroma.switches.simulated.compiled_table import CompiledTable
from pleroma.switches.simulated.embedded_network import EmbeddedNetwork
from pleroma.switches.simulated.forwarding import Forwarding
from pleroma.switches.simulated.installation import Installation, Refusal
from pleroma.switches.simulated.network_counters import HostCounters, LineCounters, PortCounters, SwitchCounters
from pleroma.switches.simulated.packet import EVENT_SIZE, Delivery, Packet
from pleroma.switches.simulated.simulated_table import Hits, SimulatedTable
from pleroma.switches.tracing.event_trace import Trace

__all__ = [
    "EVENT_SIZE",
    "Cables",
    "CompiledTable",
    "Delivery",
    "EmbeddedNetwork",
    "Forwarding",
    "Hits",
    "HostCounters",
    "Installation",
    "KernelDrops",
    "Line",
    "LineCounters",
    "LiveNetwork",
    "Packet",
    "PortCounters",
    "Refusal",
    "SimulatedTable",
    "SwitchCounters",
    "Trace",
    "forward",
]
