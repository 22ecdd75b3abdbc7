"""A controller under load: registers and withdraws as fast as it can, and says of every request that it was answered.

Arguments: the folder, a name for this life, how many clients ask at once, and after how many entries a snapshot is
saved. A line is the key of a request, the command, and the answer, as JSON; without an answer when it is about to ask.
"""

import asyncio
import itertools
import json
import random
import sys

from pleroma.content import Filter
from pleroma.control import AdoptPlan, Controller, CreateSchema, Withdraw
from pleroma.index import GridIndex
from support.control_cases import ANN, BEN, LINE, SMALL, TRAFFIC, WEATHER, Network, advertise, subscribe


async def main(folder, life, clients, every):
    chance = random.Random(life)
    GridIndex.regular(WEATHER, 7).cover(Filter.parse(WEATHER, "wind < 3"), max_members=4)  # loads what is compiled
    async with await Controller.open(folder, LINE, Network(), SMALL, snapshot_every=every) as controller:
        print("ready", controller.position, flush=True)
        for number, command in enumerate((CreateSchema(WEATHER), CreateSchema(TRAFFIC), ANN, BEN)):
            await controller.submit(command, f"first {number}")
        numbers = itertools.count(1)

        def choose(mine):
            n = chance.random()
            if mine and n < 0.35:
                return Withdraw(mine.pop(chance.randrange(len(mine))), "ben")
            if n < 0.4:
                return AdoptPlan("weather", GridIndex.regular(WEATHER, chance.randrange(8)))
            host = chance.choice(["h1", "h2", "h3"])
            if n < 0.55:
                return advertise("ben", f"wind <= {chance.randrange(8)}", host)
            return subscribe("ben", f"temperature >= {chance.randrange(16)}", host)

        async def client():
            mine = []
            while True:
                key, command = f"{life}-{next(numbers)}", choose(mine)
                print(json.dumps([key, command.to_json()]), flush=True)
                done = await controller.submit(command, key)
                print(json.dumps([key, command.to_json(), done.value]), flush=True)
                if command.to_json()["do"] == "register":
                    mine.append(done.value["id"])

        await asyncio.gather(*(client() for _ in range(clients)))


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
