"""Print the events that match a filter.

python examples/subscriber.py --url http://127.0.0.1:8470 --token TOKEN --filter "price > 150 and ticker == 'AAPL'"
"""

import argparse
import asyncio
import contextlib

import pleroma


async def main(url: str, token: str, schema: str, filter: str, seconds: float, count: int) -> None:
    async with pleroma.connect(url, token) as client, await client.subscribe(schema, filter) as subscription:
        print(f"listening at {client.host}: {subscription.filter}", flush=True)
        seen = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async for event in subscription:
                    print(event, flush=True)
                    seen += 1
                    if seen == count:
                        break
        info = subscription.info
        print(f"{seen} events; {info.wasted} came in vain, {info.duplicates} twice, {info.dropped} were dropped")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8470")
    parser.add_argument("--token", required=True)
    parser.add_argument("--schema", default="stock")
    parser.add_argument("--filter", default="true")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--count", type=int, default=0, help="stop after so many events; 0: only when time is up")
    arguments = parser.parse_args()
    asyncio.run(main(**vars(arguments)))
