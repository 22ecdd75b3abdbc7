"""The service as people run it: a process of its own, real connections, signals and kills."""

import asyncio
import json
import os
import random
import signal
import socket
import stat
import time

import httpx
import pytest

from pleroma.control import Controller
from pleroma.errors import SetupError
from pleroma.routing import build
from pleroma.service import Deployment, serve
from pleroma.service.http.examples import EXAMPLE_SCHEMA
from pleroma.switches.live.live_network import LiveNetwork
from support.logging_restored import logging_restored
from support.service.process import ServiceProcess

LONG = os.environ.get("PLEROMA_LONG") == "1"
KILLS = 20 if LONG else 1
CLIENTS = 1000 if LONG else 200


def service(folder, **settings):
    return ServiceProcess(folder, **{"requests_per_s": 1e6} | settings)


def with_stock(process):
    answer = httpx.post(f"{process.url}/v1/schemas", json={"schema": EXAMPLE_SCHEMA}, headers=process.headers)
    assert answer.status_code == 201, answer.text


def listed(process):
    found, after = {}, None
    with httpx.Client(base_url=process.url, headers=process.headers) as client:
        while True:
            page = client.get("/v1/subscriptions", params={"limit": 1000, **({"after": after} if after else {})}).json()
            found |= {each["id"]: each for each in page["items"]}
            after = page["next"]
            if after is None:
                return found


def test_the_first_start_keeps_a_token_private_and_prints_it_nowhere(tmp_path):
    folder = tmp_path / "pleroma"
    with service(folder) as first:
        assert first.url.startswith("http://127.0.0.1:")
        token = first.token
        assert token not in " ".join(first.said) + first.log()
        assert "admin.token" in " ".join(first.said)
        file = folder / "admin.token"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert httpx.get(f"{first.url}/v1/hosts", headers=first.headers).status_code == 200
        assert first.stop() == 0
    with service(folder) as second:
        assert token not in " ".join(second.said)
        assert second.token == token
        assert httpx.get(f"{second.url}/v1/hosts", headers={"Authorization": f"Bearer {token}"}).status_code == 200
        assert second.stop(signal.SIGINT) == 0
    for each in folder.iterdir():
        if each.name != "admin.token":
            assert token.encode() not in each.read_bytes()


def test_it_stops_cleanly_while_a_stream_is_open_and_requests_come(tmp_path):
    async def main(process):
        async with httpx.AsyncClient(base_url=process.url, headers=process.headers, timeout=20) as client:

            async def stream():
                async with client.stream("GET", "/v1/stream") as answer:
                    async for _ in answer.aiter_lines():
                        pass

            async def requests():
                body = {"schema": "stock", "filter": "price > 1", "host": "h1"}
                made = []
                while True:
                    try:
                        answer = await client.post("/v1/subscriptions", json=body)
                    except httpx.HTTPError:
                        return made
                    if answer.status_code == 201:
                        made.append(answer.json()["id"])

            streaming, asking = asyncio.create_task(stream()), asyncio.create_task(requests())
            await asyncio.sleep(0.5)
            begin = time.monotonic()
            process.send_signal(signal.SIGTERM)
            code = await asyncio.to_thread(process.wait, 15)
            assert time.monotonic() - begin < 5
            await streaming  # ends as a stream does, not in the middle of a chunk
            return code, await asking

    folder = tmp_path / "pleroma"
    with service(folder) as process:
        with_stock(process)
        code, made = asyncio.run(asyncio.wait_for(main(process), 40))
        assert code == 0
        assert made
        assert "Traceback" not in process.log()
    assert set(made) <= set(asyncio.run(_registered_ids(folder)))


async def _registered_ids(folder):
    """What a controller finds in a folder."""
    topology = build("testbed")
    async with LiveNetwork(topology) as network, await Controller.open(folder, topology, network) as controller:
        return controller.state.registrations


def test_a_port_in_use_is_one_clear_error(tmp_path):
    with socket.socket() as taken, logging_restored():
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SetupError, match=r"cannot listen on 127\.0\.0\.1 port"):
            serve(tmp_path, build("single:2"), Deployment(port=taken.getsockname()[1]))


def test_every_acknowledged_subscription_survives_a_kill(tmp_path):
    folder = tmp_path / "pleroma"
    chance = random.Random() if LONG else random.Random(5)
    acknowledged, withdrawn, flows = {}, set(), None
    with service(folder) as process:
        with_stock(process)
        for life in range(KILLS):
            made, gone, unsure = asyncio.run(_under_load(process, life, chance.uniform(0, 0.7)))
            assert made
            acknowledged |= made
            withdrawn |= gone
            process.start()
            found = listed(process)
            missing = set(acknowledged) - withdrawn - unsure - set(found)
            assert not missing, "acknowledged and lost"
            assert not withdrawn & set(found), "withdrawn and back"
            assert all(found[each]["filter"] == body["filter"] for each, body in acknowledged.items() if each in found)
            withdrawn |= unsure - set(found)
            flows = _flows(process)
        assert process.stop() == 0
        if LONG:
            process.start()
            assert _flows(process) == flows


async def _under_load(process, life, seconds):
    """Eight clients subscribe and withdraw; then kill -9. What was acknowledged, withdrawn, or is in doubt."""
    made, gone, unsure = {}, set(), set()

    async def client(number):
        async with httpx.AsyncClient(base_url=process.url, headers=process.headers) as connection:
            count = 0
            while True:
                count += 1
                price = life % 9 * 100 + number * 10 + count % 10
                body = {"schema": "stock", "filter": f"price > {price}", "host": f"h{number}"}
                if count % 2:
                    body["key"] = f"{life}-{number}-{count}"
                try:
                    answer = await connection.post("/v1/subscriptions", json=body)
                    assert answer.status_code == 201, answer.text
                    name = answer.json()["id"]
                    made[name] = answer.json()
                    if count % 3 == 0:
                        unsure.add(name)
                        assert (await connection.delete(f"/v1/subscriptions/{name}")).status_code == 204
                        unsure.discard(name)
                        gone.add(name)
                except httpx.TransportError:
                    return

    clients = [asyncio.create_task(client(number)) for number in range(1, 9)]
    while len(made) < 10 and not any(each.done() for each in clients):
        await asyncio.sleep(0.01)
    await asyncio.sleep(seconds)
    process.kill()
    await asyncio.wait_for(asyncio.gather(*clients), 20)
    await asyncio.sleep(0.1)  # the broken connections are closed in the next rounds of the loop
    return made, gone, unsure


def _flows(process):
    with httpx.Client(base_url=process.url, headers=process.headers) as client:
        return {f"R{i}": client.get(f"/v1/switches/R{i}/flows?limit=1000").json() for i in range(1, 11)}


def test_many_clients_at_once_are_all_served(tmp_path):
    async def client(process, number):
        """A connection of its own for each, all open at the same time."""
        host, port = process.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        body = json.dumps({"schema": "stock", "filter": f"price > {number % 900}", "host": "h1"})
        head = f"POST /v1/subscriptions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {process.token}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        connected.append(number)
        await everybody.wait()
        writer.write((head + body).encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 201"), answer
        length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        made = json.loads(await reader.readexactly(length))
        writer.close()
        return made["id"]

    async def main(process):
        nonlocal everybody
        everybody = asyncio.Event()
        tasks = [asyncio.create_task(client(process, number)) for number in range(CLIENTS)]
        while len(connected) < CLIENTS:
            await asyncio.sleep(0.01)
        everybody.set()
        return await asyncio.gather(*tasks)

    connected, everybody = [], None
    with service(tmp_path / "pleroma") as process:
        with_stock(process)
        made = asyncio.run(asyncio.wait_for(main(process), 120))
        assert len(set(made)) == CLIENTS
        assert set(listed(process)) == set(made)
        assert process.stop() == 0


def test_no_token_is_ever_logged(tmp_path):
    """Whatever goes wrong with a request, in whatever part of it the token is."""
    with service(tmp_path / "pleroma", requests_per_s=50, anonymous_per_s=5) as process:
        with_stock(process)
        token = process.token
        with httpx.Client(base_url=process.url, headers=process.headers) as client:
            for _ in range(80):
                client.get("/v1/hosts")
            for path in (f"/v1/{token}", f"/v1/hosts?token={token}", f"/v1/schemas/{token}", f"/{token}"):
                client.get(path)
            client.post("/v1/reports", json={token: token})
            client.post("/v1/reports", content=token.encode())
            client.get("/v1/hosts", headers={"Authorization": f"Basic {token}"})
            client.get("/v1/hosts", headers={"Authorization": f"Bearer {token} {token}"})
        host, port = process.url.removeprefix("http://").split(":")
        for rubbish in (f"GET /{token}\r\n\r\n", f"{token}: {token}\r\n\r\n", f"GET / HTTP/9.9\r\n{token}\r\n\r\n"):
            with socket.create_connection((host, int(port)), 5) as connection:
                connection.sendall(rubbish.encode())
                connection.settimeout(5)
                connection.recv(1000)
        metrics = httpx.get(f"{process.url}/metrics", headers=process.headers).text
        assert 'pleroma_connections_cut_total{reason="malformed"} 2.0' in metrics  # counted, and not logged one by one
        assert process.stop() == 0
        assert token not in "".join(process.said)
        assert token not in process.log()
