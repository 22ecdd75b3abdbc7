"""A host that may send the same content as another uses the number of the other: receivers tell by the tag."""

import asyncio

from pleroma.control import CreatePrincipal
from pleroma.routing import build
from pleroma.service.http.tokens import digest
from support.network.host_programs import place
from support.waiting import LIMIT_SECONDS, until

LINE = build("line:3")
COUNT = 100
EVERYTHING = {"*": "true"}
PUBLISHER = """
import json, sys
from pleroma.client.blocking import connect

url, _, host = sys.argv[1:4]
with connect(url, "plr_alice", host, principal="alice", patience=60) as client:
    publisher = client.advertise("weather")
    print("advertised", flush=True)
    for line in sys.stdin:
        for temperature in json.loads(line):
            publisher.publish({"temperature": temperature, "wind": 1})
        print(publisher.info.unsent, flush=True)
"""
FORGER = """
import asyncio, json, sys
import pleroma

async def main(url, host, number, count):
    async with pleroma.connect(url, "plr_mallory", host, principal="mallory", patience=60) as client:
        publisher = await client.advertise("weather")
        link, (*_, own_seal) = client._connection.attachment.link(), publisher._route
        event = publisher.schema.event(temperature=39, wind=2)
        for sequence in range(1, count + 1):
            seal = own_seal if sequence % 2 else None
            for address, packet in publisher.channel.datagrams(event, number, sequence, 0, seal):
                link.send(address, packet)
        publisher.publish({"temperature": 38, "wind": 2})
        print("sent", flush=True)
        await asyncio.to_thread(sys.stdin.read)

url, _, host, number, count = sys.argv[1:]
asyncio.run(main(url, host, int(number), int(count)))
"""
SUBSCRIBER = """
import asyncio, json, sys
import pleroma

async def main(url, host):
    async with pleroma.connect(url, "plr_bob", host, principal="bob", patience=60) as client:
        async with await client.subscribe("weather") as subscription:
            print("subscribed", flush=True)
            async for event in subscription:
                print(json.dumps(event["temperature"]), flush=True)
                if event["temperature"] == 40:
                    print(json.dumps(client.info | {"duplicates": subscription.info.duplicates}), flush=True)
                    return

asyncio.run(main(sys.argv[1], sys.argv[3]))
"""


def test_every_honest_event_arrives_and_the_ports_are_named_that_the_forged_ones_may_have_come_by(tmp_path):
    async def main():
        async with place(tmp_path, LINE) as here:
            service = here.service.service
            for name, role in (("alice", "publisher"), ("mallory", "publisher"), ("bob", "subscriber")):
                command = CreatePrincipal(name, role, digest(f"plr_{name}"), EVERYTHING, EVERYTHING)
                await service.controller.submit(command)
            subscriber, publisher = here.start("h3", SUBSCRIBER), here.start("h1", PUBLISHER)
            assert await subscriber.line() == "subscribed\n"
            assert await publisher.line() == "advertised\n"
            (advertised,) = service.state.registrations.by_principal["alice"].values()
            forger = here.start("h2", FORGER, "inband://", "any", str(advertised.publisher), str(COUNT))
            assert await forger.line() == "sent\n"
            assert float(await subscriber.line()) == 38  # what it published as itself, after all that is forged
            honest = [float(n % 30) for n in range(COUNT)]
            assert await publisher.told(honest) == 0
            got = [float(await subscriber.line()) for _ in honest]
            assert sorted(got) == sorted(honest)  # a switch sends what comes together in the order of its rules
            assert await publisher.told([40]) == 0
            last, info = await subscriber.rest()
            assert last == 40
            assert (info["forged"], info["duplicates"]) == (COUNT, 0)
            await until(service.forged.shown, LIMIT_SECONDS)
            (shown,) = service.forged.shown()
            assert (shown["schema"], shown["events"]) == ("weather", COUNT)
            assert shown["may_enter_at"] == ["R1 port 1 (h1)", "R2 port 1 (h2)"]

    asyncio.run(asyncio.wait_for(main(), 3 * LIMIT_SECONDS))
