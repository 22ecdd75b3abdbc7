"""A market and three traders. The market's quotes wander; each trader wants another part of them.

python examples/stock_ticker.py --url http://127.0.0.1:8470 --token TOKEN --seconds 10
"""

import argparse
import asyncio
import random
from pathlib import Path

import pleroma
from pleroma.client import Client, Subscription
from pleroma.content import Schema

STOCK = Schema.load(Path(__file__).with_name("stock.toml"))
TRADERS = {
    "bargains": "price < 50",
    "apples": "ticker == 'AAPL' and volume > 500",
    "outliers": "price > 900 or price < 20",
}


async def trade(name: str, subscription: Subscription) -> None:
    async for event in subscription:
        print(f"{name:>9}  {event['ticker']:<5} {event['price']:8.2f}  {event['volume']} shares", flush=True)


async def market(client: Client, seconds: float, count: int) -> int:
    prices = {ticker: random.uniform(20, 900) for ticker in ("AAPL", "GOOG", "IBM", "MSFT")}
    end = asyncio.get_running_loop().time() + seconds
    async with await client.advertise("stock", "market == 'nasdaq'") as publisher:
        while publisher.info.published < count and asyncio.get_running_loop().time() < end:
            ticker = random.choice(list(prices))
            prices[ticker] = min(max(prices[ticker] * random.uniform(0.8, 1.25), 1.0), 999.0)
            publisher.publish(
                {"price": prices[ticker], "volume": random.randrange(1024), "ticker": ticker, "market": "nasdaq"}
            )
            await asyncio.sleep(0.01)
        return publisher.info.published


async def main(url: str, token: str, seconds: float, count: int) -> None:
    async with pleroma.connect(url, token) as exchange, pleroma.connect(url, token) as office:
        await exchange.create_schema(STOCK)
        subscriptions = {name: await office.subscribe("stock", wanted) for name, wanted in TRADERS.items()}
        traders = [asyncio.create_task(trade(*each)) for each in subscriptions.items()]
        published = await market(exchange, seconds, count)
        await asyncio.sleep(0.2)  # what is still on its way
        for subscription in subscriptions.values():
            await subscription.close()
        await asyncio.gather(*traders)
        print(f"{published} quotes published, {office.info['packets']} brought to the office")
        for name, subscription in subscriptions.items():
            print(f"{name:>9}  {subscription.info.delivered} wanted: {subscription.filter}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8470")
    parser.add_argument("--token", required=True)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--count", type=int, default=10**9, help="stop after so many quotes")
    arguments = parser.parse_args()
    asyncio.run(main(**vars(arguments)))
