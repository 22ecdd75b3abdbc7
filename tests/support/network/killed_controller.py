"""A controller that is made to be killed: support.network.killed_controller FOLDER PORT TOPOLOGY REQUESTS

It asks itself for subscriptions, many at a time, and prints the id of each as it is answered.
"""

import asyncio
import sys
from pathlib import Path
from random import Random

from pleroma.routing import Topology, build
from pleroma.service.planes.openflow_plane import OpenFlowSettings, over_openflow
from support.network.weather_requests import BEGINNING, advertise, random_filter, subscribe
from support.network.world import STEADY

MAX_REQUESTS_IN_FLIGHT = 8


async def main(folder: Path, port: int, topology: Topology, requests: int) -> None:
    settings = OpenFlowSettings(listen=("127.0.0.1", port), timeouts=STEADY)
    async with over_openflow(folder, topology, None, settings) as (controller, _):
        for command in (*BEGINNING, *(advertise(host.name, "true") for host in topology.hosts)):
            await controller.submit(command)
        draw, hosts = Random(3), [host.name for host in topology.hosts]
        wanted = iter([subscribe(draw.choice(hosts), random_filter(draw, 0.2)) for _ in range(requests)])

        async def ask() -> None:
            for command in wanted:
                done = await controller.submit(command)
                print(done.value["id"], flush=True)

        await asyncio.gather(*(ask() for _ in range(MAX_REQUESTS_IN_FLIGHT)))
        print("all", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), build(sys.argv[3]), int(sys.argv[4])))
