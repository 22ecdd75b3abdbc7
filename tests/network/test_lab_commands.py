"""`pleroma lab` as somebody uses it beside a controller: IPv4 hosts, counters, cut cables, switches that lose power."""

import asyncio
import json
import socket

import httpx
from typer.testing import CliRunner

from pleroma.cli.command_tree import app
from pleroma.errors import SetupError, UnknownName
from pleroma.index.address import IPV4
from pleroma.lab import Lab, registry
from pleroma.lab.lab_names import random_lab
from pleroma.routing import build, with_ipv4
from pleroma.service import Deployment, running
from pleroma.service.http.examples import EXAMPLE_SCHEMA
from pleroma.service.planes.openflow_plane import OpenFlowSettings
from pleroma.switches.openflow.agent import SwitchTimeouts
from pleroma.wire.ports import EVENTS_PORT
from support.network.world import free_port
from support.waiting import LIMIT_SECONDS

EVENTS = 7
SOON = SwitchTimeouts(answer=20, audit=60, grace=0.5, dead=20)


def pleroma(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, (words, done.output, done.exception)
    return done.stdout


def told(said):
    """The JSON among what a command printed; the service in this process logs there as well."""
    return next(json.loads(line) for line in said.splitlines() if line.startswith("{"))


def refused(*words):
    return CliRunner().invoke(app, [str(word) for word in words]).exception


async def command(*words):
    return await asyncio.to_thread(pleroma, *words)


def send(lab, host, address):
    with lab.inside(host), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        for _ in range(EVENTS):
            sending.sendto(b"an event", (address, EVENTS_PORT))


def test_a_lab_with_ipv4_hosts_is_looked_at_broken_and_mended_by_commands(tmp_path):
    name, port = random_lab(), free_port()
    network = with_ipv4(build("line:2"))
    plane = OpenFlowSettings(("127.0.0.1", port), addresses=IPV4, timeouts=SOON)

    async def main():
        async with (
            running(tmp_path, network, Deployment(port=0, plane=plane)) as service,
            httpx.AsyncClient(base_url=service.url, timeout=60) as client,
        ):
            client.headers["Authorization"] = f"Bearer {service.token}"
            controller = f"tcp:127.0.0.1:{port}"
            made = await command(
                "lab", "up", "line:2", "--name", name, "--addresses", "ipv4", "--controller", controller, "--json"
            )
            assert told(made)["hosts"]["h2"]["address"] == "10.0.0.2"

            async def until(field, wanted):
                async with asyncio.timeout(LIMIT_SECONDS):
                    while (found := (await client.get("/v1/network")).json()[field]) != wanted:
                        await asyncio.sleep(0.05)
                return found

            await until("switches", {"R1": "ready", "R2": "ready"})
            for path, body in (
                ("schemas", {"schema": EXAMPLE_SCHEMA}),
                ("advertisements", {"schema": "stock", "filter": "true", "host": "h1"}),
                ("subscriptions", {"schema": "stock", "filter": "true", "host": "h2"}),
            ):
                assert (await client.post(f"/v1/{path}", json=body)).status_code == 201

            lab = Lab.find(registry.read(name))
            await see_counters(lab, client, service)
            await command("lab", "cut", "R1", "R2", "--name", name)
            await until("cut", [str(network.links[0])])
            await command("lab", "mend", "R2", "R1", "--name", name)
            await until("cut", [])
            await command("lab", "cut", "h2", "--name", name)
            await until("unreachable", ["h2"])
            await command("lab", "mend", "h2", "R2", "--name", name)
            await until("unreachable", [])
            await command("lab", "stop", "R2", "--name", name)
            await until("switches", {"R1": "ready", "R2": "gone"})
            await command("lab", "start", "R2", "--name", name)
            await until("switches", {"R1": "ready", "R2": "ready"})
            await command("lab", "stop", "--name", name)
            await until("switches", {"R1": "gone", "R2": "gone"})
            await command("lab", "start", "--name", name)
            await until("switches", {"R1": "ready", "R2": "ready"})
            assert "OFPST_PORT" in await command("lab", "ofctl", "--name", name, "R1", "dump-ports")
            for words, error in (
                (("cut", "R1"), SetupError),
                (("cut", "h1", "h2"), SetupError),
                (("mend", "R9"), UnknownName),
                (("start", "R1"), SetupError),
                (("stop", "R9"), UnknownName),
                (("flows", "R9"), UnknownName),
            ):
                assert isinstance(await asyncio.to_thread(refused, "lab", *words, "--name", name), error), words

    async def see_counters(lab, client, service):
        """The rules of the switch, by itself and by the controller, with their priority and packets."""
        (rule,) = (await client.get("/v1/switches/R2/flows")).json()["items"]
        assert rule["packets"] is None
        await asyncio.to_thread(send, lab, "h1", rule["prefix"].partition("/")[0])
        async with asyncio.timeout(LIMIT_SECONDS):
            while rule["packets"] != EVENTS:  # a switch counts what its cache forwards within a second
                await asyncio.sleep(0.1)
                (rule,) = (await client.get("/v1/switches/R2/flows?counts=true")).json()["items"]
        found = told(await command("lab", "flows", "R2", "--name", lab.name, "--json"))["flows"]
        (there,) = [each for each in found if each["table"] == 1]
        assert [there["priority"], there["packets"]] == [rule["priority"], EVENTS]
        assert there["priority"] == 100 + len(rule["dz"].strip("ε"))
        shown = await command("flows", "R2", "--url", service.url, "--token", service.token)
        assert f" {there['priority']} " in shown
        assert f" {EVENTS} " in shown

    try:
        asyncio.run(asyncio.wait_for(main(), 3 * LIMIT_SECONDS))
    finally:
        registry.remove(name)
