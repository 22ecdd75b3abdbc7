"""A broker with many subscriptions in a process of its own; without any, a program that passes datagrams on unread.

The argument is how many. It says its port, the secrets of its programs and the number to publish under, and goes on
until its standard input ends.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import socket
import sys

import uvloop

from pleroma.broker import Broker, MatchState, ProgramOwner
from pleroma.content import Box, Filter, Range, Real, Schema
from pleroma.content.filter_json import to_json
from pleroma.control.state.command import RegistrationKind, canonical
from pleroma.control.state.records import Registered, SchemaEntry
from pleroma.index import Dz, DzSet
from pleroma.routing import HostId

SCHEMA = Schema("bench", tuple(Real(f"x{d}", False, 0.0, 1.0) for d in range(4)))
PROGRAMS = 10
WIDTH = 0.1
PUBLISHER = 1


def match_state(many: int) -> MatchState:
    """One program wants everything, ten others share the rest: boxes that a ten-thousandth of all events lies in."""
    chance, entry, kept = random.Random(1), SchemaEntry(SCHEMA, 0, Dz(1), []), list[Registered]()

    def keep(number: int, kind: RegistrationKind, lease: str, wanted: Filter) -> None:
        boxes = canonical(to_json(wanted))
        kept.append(Registered(str(number), kind, "bench", HostId("broker"), entry, boxes, DzSet(), number, lease))

    keep(PUBLISHER, "advertisement", "sender", Filter.everything(SCHEMA))
    keep(2, "subscription", "probe", Filter.everything(SCHEMA))
    for number in range(3, many + 2):
        lows = [chance.uniform(0.0, 1.0 - WIDTH) for _ in SCHEMA.attributes]
        box = Box(tuple(Range(low, low + WIDTH) for low in lows))
        keep(number, "subscription", f"program {number % PROGRAMS}", Filter(SCHEMA, (box,)))
    made = MatchState()
    made.load(kept)
    return made


def cpu() -> float:
    """Seconds that this process has worked."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def bound() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("127.0.0.1", 0))
    return made


async def serve(many: int) -> None:
    broker = Broker(bound(), match_state(many))
    leases = ["sender", "probe", *(f"program {number}" for number in range(PROGRAMS))]
    secrets = [bytes([number]) * 16 for number in range(len(leases))]
    for secret, lease in zip(secrets, leases, strict=True):
        broker.admit(secret, ProgramOwner("bench", lease), 3600.0)
    print(
        json.dumps({"port": broker.address[1], "secrets": [each.hex() for each in secrets], "cpu": cpu()}), flush=True
    )
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
    counters = broker.counters
    print(json.dumps({"delivered": counters.delivered, "published": counters.published, "cpu": cpu()}), flush=True)
    broker.close()


def pass_on() -> None:
    """To the socket that sent the first datagram, whatever comes from others; until an empty one comes."""
    taken = bound()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    print(json.dumps({"port": taken.getsockname()[1], "secrets": []}), flush=True)
    _, probe = taken.recvfrom(2048)
    while data := taken.recvfrom(2048)[0]:
        taken.sendto(data, probe)
    taken.close()


if __name__ == "__main__":
    if size := int(sys.argv[1]):
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(size))
    else:
        pass_on()
