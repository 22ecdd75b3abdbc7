"""TLS handshakes with changed bytes, at the ports of switches and of HTTPS: others go on, and nothing stays."""

import asyncio
import contextlib
import os
import random
import ssl
from collections import Counter

import httpx
import pytest

from pleroma.routing import build
from pleroma.service import Deployment, running
from pleroma.switches.openflow.agent import SwitchTimeouts
from pleroma.switches.openflow.discovered_topology import DiscoveredTopology
from pleroma.switches.openflow.listener import tls_context
from pleroma.switches.openflow.openflow_network import OpenFlowNetwork
from support.certificates import certified
from support.openflow_switch import ScriptedSwitch
from support.waiting import run, until

LONG = os.environ.get("PLEROMA_LONG") == "1"
HANDSHAKES = 3000 if LONG else 120
ANSWER_SECONDS = 0.3
"""How long to wait for the other side, which may be waiting too: for bytes that were cut out."""
AT_ONCE = 4
LOCAL = "127.0.0.1"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    return certified(folder, "controller"), certified(folder, "switch")


def client_context(controller, shown=None):
    context = ssl.create_default_context(cafile=controller.certificate)
    if shown is not None:
        context.load_cert_chain(shown.certificate, shown.key)
    return context


def changed(data, chance):
    """The bytes of a flight with a bit, a length or a stretch of it changed."""
    made, place = bytearray(data), chance.randrange(len(data))
    kind = chance.randrange(5)
    if kind == 0:
        made[place] ^= 1 << chance.randrange(8)
    elif kind == 1:  # the length of the first record
        made[3:5] = chance.randrange(2**16).to_bytes(2, "big")
    elif kind == 2:
        del made[place:]
    elif kind == 3:
        made[place:place] = chance.randbytes(chance.randrange(1, 40))
    else:
        made[place:place] = made[: chance.randrange(1, len(made) + 1)]
    return bytes(made)


async def handshake(port, context, chance, wrong_flight):
    """Shake hands with one flight changed, the last of which lies behind the handshake; says how far it came."""
    coming, going = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(coming, going, server_hostname="localhost")
    reader, writer = await asyncio.open_connection(LOCAL, port)
    is_done = False
    try:
        for flight in range(3):
            with contextlib.suppress(ssl.SSLWantReadError):
                if is_done:
                    client.write(chance.randbytes(200))
                else:
                    client.do_handshake()
                    is_done = True
            data = going.read()
            if data:
                writer.write(changed(data, chance) if flight == wrong_flight else data)
                await writer.drain()
            if not is_done:
                async with asyncio.timeout(ANSWER_SECONDS):
                    heard = await reader.read(2**16)
                if not heard:
                    return "closed"
                coming.write(heard)
        return "behind"
    except TimeoutError:
        return "waiting"
    except (ssl.SSLError, OSError):
        return "broken"
    finally:
        writer.transport.abort()


async def handshakes(port, context, seed):
    """Counts how far they came; each of the flights is the wrong one as often as the others."""
    ends, numbers = Counter(), iter(range(HANDSHAKES))

    async def one_by_one():
        for number in numbers:
            chance = random.Random() if LONG else random.Random(f"{seed} {number}")
            ends[await handshake(port, context, chance, number % 3)] += 1

    await asyncio.gather(*(one_by_one() for _ in range(AT_ONCE)))
    return ends


def came_to_every_stage(ends):
    """Some were refused or left hanging in the middle, others were through and broken behind."""
    return ends["behind"] > HANDSHAKES // 6 and ends["closed"] + ends["broken"] + ends["waiting"] > HANDSHAKES // 6


def test_changed_handshakes_at_the_port_of_the_switches_cost_an_honest_switch_nothing(files, caplog):
    async def main():
        controller, switch = files
        tls = tls_context(controller.certificate, controller.key, switch.certificate)
        discovered = DiscoveredTopology(build("line:2"))
        timeouts = SwitchTimeouts(answer=5.0, audit=1000.0, grace=0.2, dead=1.0)
        async with OpenFlowNetwork(discovered, listen=(LOCAL, 0), tls=tls, timeouts=timeouts) as made:
            await made.install([])
            honest, context = ScriptedSwitch(datapath=1), client_context(*files)
            await honest.connect(made.address, tls=context)
            await until(lambda: made.status()["R1"].state == "ready")
            ends = await handshakes(made.address[1], context, 31)
            assert came_to_every_stage(ends), ends
            await until(lambda: len(made._listener.connections) == 1 and made._listener.waiting == 0)
            assert made.status()["R1"].state == "ready"
            assert not honest.closed.is_set()
            await honest.disconnect()

    run(main, 60 + HANDSHAKES)
    assert [each for each in caplog.records if each.levelname in ("ERROR", "CRITICAL")] == []


def test_changed_handshakes_at_the_port_of_https_leave_nothing_and_others_are_answered(tmp_path, files, caplog):
    async def main():
        controller, _ = files
        context = client_context(controller)
        async with running(tmp_path, build("single:2"), Deployment(port=0, https=controller)) as service:
            table, headers = service.service.connections, {"Authorization": f"Bearer {service.token}"}
            async with httpx.AsyncClient(base_url=service.url, headers=headers, verify=context) as api:
                ends = await handshakes(int(service.url.rpartition(":")[2]), context, 32)
                assert came_to_every_stage(ends), ends
                assert (await api.get("/v1/hosts")).status_code == 200
                await until(lambda: len(table.anonymous) == 0)
                assert len(table.known) == 1

    run(main, 60 + HANDSHAKES)
    assert [each for each in caplog.records if each.levelname in ("ERROR", "CRITICAL")] == []
