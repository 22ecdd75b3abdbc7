"""A controller reduced to its log: appends as fast as it can, and says of every entry that it was acknowledged.

Arguments: the log, a name for this life, and how many clients append at once. The state is the list of all bodies;
after every 40th entry a snapshot of it is saved and the log compacted.
"""

import asyncio
import itertools
import sys
from functools import partial

from pleroma.control import GroupCommit, SqliteLog
from support.quick_follower import QuickFollower


async def main(path, life, clients):
    log = SqliteLog.open(path)
    recovery = log.latest_snapshot()
    state = recovery.snapshot.state.split() if recovery.snapshot else []
    follower = QuickFollower(lambda _, body, __: state.append(body))
    async with GroupCommit(log, follower, after=recovery.position) as commit:
        print("ready", len(state), flush=True)
        numbers = itertools.count(1)

        async def client():
            while True:
                key = f"{life}-{next(numbers)}"
                position = await commit.append(key.encode(), None)
                print(key, position, flush=True)

        async def saver():
            while True:
                if commit.applied >= log.latest_snapshot().position + 40:
                    await commit.save_snapshot(lambda: partial(b" ".join, list(state)))
                await asyncio.sleep(0.001)

        await asyncio.gather(saver(), *(client() for _ in range(clients)))


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
