"""A client process that is there to be killed: it publishes and subscribes, leaves and joins, without a pause.

Arguments are the address of the controller, a token and a seed.
"""

import asyncio
import random
import sys

import pleroma
from support.strategies import STOCK


async def main(url, token, seed):
    chance = random.Random(seed)
    async with pleroma.connect(url, token) as client:
        members = [await client.advertise("stock"), await client.subscribe("stock", "price < 500")]
        print("ready", flush=True)
        while True:
            if chance.random() < 0.6 or len(members) < 3:
                text = f"price < {chance.randrange(1, 1000)} and volume > {chance.randrange(1000)}"
                members.append(await (client.subscribe if chance.random() < 0.7 else client.advertise)("stock", text))
            else:
                await members.pop(chance.randrange(2, len(members))).close()
            members[0].publish(STOCK.event(price=999.0, volume=1, ticker="ODD"))
            await asyncio.sleep(chance.random() * 0.02)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
