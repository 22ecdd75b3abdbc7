"""A router with many standing subscriptions on a large network, in a process of its own: its memory is all that it has.

Started with the network and the number of subscriptions. For each number on standard input, so many fresh subscriptions
are registered and withdrawn one by one; every answer is one line of JSON.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pleroma.index import EVERYTHING, Dz, DzSet
from pleroma.routing import Advertise, HostId, Registration, Router, Subscribe, Unsubscribe, build

DZ_BITS = 23
SHORTEST_DZ_BITS = 10
PUBLISHERS = 8
PAGE_BYTES = resource.getpagesize()


def main(network: str, standing: int) -> None:
    draw = random.Random(standing)
    topology = build(network)
    router = Router(topology, max_length=DZ_BITS)
    hosts = [host.name for host in topology.hosts]
    before = _rss_mb()
    begin = time.process_time()
    router.load(_registrations(draw, hosts, standing))
    load_s = time.process_time() - begin
    rules = [len(table) for table in router.tables.values()]
    loaded = {"load_s": round(load_s, 1), "rss_mb": round(_rss_mb()), "rss_mb_added": round(_rss_mb() - before)}
    peak = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    shape = {"switches": len(topology.switches), "hosts": len(hosts), "rules_max": max(rules), "rules_all": sum(rules)}
    _answer(loaded | {"rss_peak_mb": peak} | shape)
    for line in sys.stdin:
        fresh = [Subscribe(f"n{i}", draw.choice(hosts), _region(draw)) for i in range(int(line))]
        _answer(_timed(router, fresh))


def _registrations(draw: random.Random, hosts: list[HostId], standing: int) -> Iterator[Registration]:
    """Some publish everything, spread over the network; each subscription is one dz of a random host."""
    for host in hosts[:: len(hosts) // PUBLISHERS]:
        yield Advertise(f"a-{host}", host, EVERYTHING)
    for i in range(standing):
        yield Subscribe(f"s{i}", draw.choice(hosts), _region(draw))


def _region(draw: random.Random) -> DzSet:
    length = draw.randint(SHORTEST_DZ_BITS, DZ_BITS)
    return DzSet([Dz(1 << length | draw.getrandbits(length))])


def _timed(router: Router, fresh: list[Subscribe]) -> dict[str, Any]:
    """CPU seconds of each pair of requests, and flow operations of all."""
    pairs_s: list[float] = []
    operations = 0
    for request in fresh:
        begin = time.process_time()
        made, undone = router.apply(request), router.apply(Unsubscribe(request.id))
        pairs_s.append(time.process_time() - begin)
        operations += len(made) + len(undone)
    return {"pairs_s": pairs_s, "operations": operations}


def _rss_mb() -> float:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE_BYTES / 2**20


def _answer(figures: dict[str, Any]) -> None:
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
