"""A controller that is made to be paused: support.network.paused_controller PORT GENERATION TOPOLOGY

It claims the switches, installs a rule on the first for each line of bits that it reads, and prints what comes of it.
"""

import asyncio
import sys

from pleroma.errors import SwitchFenced
from pleroma.index import Dz
from pleroma.routing import Change, Flow, FlowOp, Output, Port, Topology, build
from pleroma.switches.openflow.discovered_topology import DiscoveredTopology
from pleroma.switches.openflow.openflow_network import OpenFlowNetwork
from support.network.world import STEADY


async def main(port: int, generation: int, topology: Topology) -> None:
    first = topology.switches[0]
    async with OpenFlowNetwork(
        DiscoveredTopology(topology),
        listen=("127.0.0.1", port),
        timeouts=STEADY,
        generation=generation,
        on_fenced=lambda error: print("told", type(error).__name__, flush=True),
    ) as network:
        while bits := (await asyncio.to_thread(sys.stdin.readline)).strip():
            try:
                await network.install([FlowOp(first, Change.ADD, Flow(Dz.parse(bits), (Output(Port(1)),)))])
                print("installed", bits, flush=True)
            except SwitchFenced:
                print("fenced", bits, flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), build(sys.argv[3])))
