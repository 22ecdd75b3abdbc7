"""The service inside a program's own loop: starting, stopping, and how its connections are set up."""

import asyncio
import re
import socket
import time

import httpx
import pytest

from pleroma.control import Controller, CreatePrincipal, RotateToken
from pleroma.errors import LogLocked, SetupError
from pleroma.routing import build
from pleroma.service import Deployment, running
from pleroma.service.http.tokens import digest
from pleroma.switches.live.live_network import LiveNetwork
from support.waiting import run

TOPOLOGY = build("single:2")


def test_it_answers_while_it_runs_and_not_afterwards(tmp_path):
    async def main():
        async with running(tmp_path, TOPOLOGY, Deployment(port=0)) as service, httpx.AsyncClient() as client:
            assert service.url.startswith("http://127.0.0.1:")
            assert (await client.get(f"{service.url}/health")).json()["position"] == service.service.controller.position
            assert service.token == service.token_file.read_text().strip()
        async with httpx.AsyncClient() as client:
            with pytest.raises(httpx.ConnectError):
                await client.get(f"{service.url}/health")

    run(main)


def test_answers_do_not_wait_for_the_acknowledgement_of_the_one_before(tmp_path):
    async def main():
        async with running(tmp_path, TOPOLOGY, Deployment(port=0)) as service, httpx.AsyncClient() as client:
            await client.get(f"{service.url}/health")
            (connection,) = service.server.server_state.connections
            accepted = connection.transport.get_extra_info("socket")
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    run(main)


def test_the_same_folder_cannot_be_served_twice(tmp_path):
    async def main():
        async with running(tmp_path, TOPOLOGY, Deployment(port=0)):
            with pytest.raises(LogLocked):
                async with running(tmp_path, TOPOLOGY, Deployment(port=0)):
                    pass

    run(main)


def test_a_bad_port_or_address_is_one_clear_error(tmp_path):
    async def main(host, port):
        async with running(tmp_path, TOPOLOGY, Deployment(host, port)):
            pass

    for host, port in (("127.0.0.1", 70_000), ("192.0.2.1", 0)):
        with pytest.raises(SetupError, match="cannot listen"):
            asyncio.run(main(host, port))


def test_a_start_that_was_cut_short_before_the_administrator_was_made_makes_another_token(tmp_path):
    (tmp_path / "admin.token").write_text("one that nobody knows\n")

    async def main():
        async with running(tmp_path, TOPOLOGY, Deployment(port=0)) as service:
            assert service.token == service.token_file.read_text().strip()
            assert service.token.startswith("plr_")

    run(main)


def test_a_folder_whose_principal_admin_is_no_administrator_gets_one_of_another_name(tmp_path):
    async def main():
        async with LiveNetwork(TOPOLOGY) as network, await Controller.open(tmp_path, TOPOLOGY, network) as controller:
            await controller.submit(CreatePrincipal("admin", "both", digest("x")))
        async with running(tmp_path, TOPOLOGY, Deployment(port=0)) as service:
            made = service.service.state.principals["admin2"]
            assert (made.role, made.token.digest) == ("admin", digest(service.token))

    run(main)


def test_a_folder_whose_administrators_have_no_good_token_any_more_gets_another_one(tmp_path):
    async def main(ends):
        async with running(tmp_path, TOPOLOGY, Deployment(port=0)) as service:
            controller = service.service.controller
            await controller.submit(RotateToken("admin", digest(f"until {ends}"), ends))
            return service.token

    assert run(lambda: main(time.time() + 3600))
    assert run(lambda: main(1.0)) is None
    assert run(lambda: main(None))
    assert run(lambda: main(2.0)) is None  # there is another one, whose token does not end


def test_how_long_the_loop_stood_still_is_told(tmp_path):
    async def main():
        async with running(tmp_path, TOPOLOGY, Deployment(port=0)) as service, httpx.AsyncClient() as client:
            await asyncio.sleep(0.03)
            time.sleep(0.3)
            await asyncio.sleep(0.03)
            found = (await client.get(f"{service.url}/metrics")).text
            (told,) = re.findall(r'^pleroma_loop_stall_seconds{within="60s"} (\S+)$', found, re.MULTILINE)
            headers = {"Authorization": f"Bearer {service.token}"}
            counted = (await client.get(f"{service.url}/v1/statistics", headers=headers)).json()
            assert min(float(told), counted["loop_stall_seconds"]) >= 0.3

    run(main)
