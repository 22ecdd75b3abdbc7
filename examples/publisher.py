"""Publish random stock quotes below a price.

python examples/publisher.py --url http://127.0.0.1:8470 --token TOKEN --seconds 10
"""

import argparse
import asyncio
import random
from pathlib import Path

import pleroma
from pleroma.content import Schema

STOCK = Schema.load(Path(__file__).with_name("stock.toml"))


async def main(url: str, token: str, below: float, rate: float, seconds: float, count: int) -> None:
    async with pleroma.connect(url, token) as client:
        await client.create_schema(STOCK)
        publisher = await client.advertise("stock", f"price < {below}")
        print(f"publishing at {client.host}: {publisher.advertised}", flush=True)
        end = asyncio.get_running_loop().time() + seconds
        while publisher.info.published < count and asyncio.get_running_loop().time() < end:
            publisher.publish(
                {
                    "price": random.uniform(0, below * 0.999),
                    "volume": random.randrange(1024),
                    "ticker": random.choice(["AAPL", "GOOG", "IBM", "MSFT"]),
                    "market": random.choice(["nyse", "nasdaq", None]),
                }
            )
            await asyncio.sleep(1 / rate)
        print(f"{publisher.info.published} events published")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8470")
    parser.add_argument("--token", required=True)
    parser.add_argument("--below", type=float, default=1000.0, help="the price that all quotes stay below")
    parser.add_argument("--rate", type=float, default=20.0, help="events a second")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--count", type=int, default=10**9, help="stop after so many events")
    arguments = parser.parse_args()
    asyncio.run(main(**vars(arguments)))
