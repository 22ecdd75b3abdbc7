"""The API through the network has the rights, limits and errors of the API over HTTP."""

import asyncio

import httpx
import pytest

from pleroma.control import RemovePrincipal
from pleroma.service.inband.host_admission import HostAdmission
from pleroma.service.inband.inband_server import InbandServer
from pleroma.service.inband.switch_carrier import SwitchCarrier
from support.inband_echo import echoing
from support.inband_pipes import LossyNetwork
from support.service.in_process import ADMIN, world
from support.waiting import run


def test_rights_limits_and_errors_are_those_of_http(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            network = LossyNetwork(3, loss=0.2, twice=0.2, delay=0.005)
            controller = api.app.state.service.controller
            admission = HostAdmission(controller, may_join=lambda _: False)
            network.server = InbandServer(api.app, controller, SwitchCarrier(network.send), admission)
            made = await api.post(
                "/v1/principals", {"name": "sue", "role": "subscriber", "read": {"stock": "price < 50"}}
            )
            host = controller.state.topology.host["h1"]
            place = {"switch": host.switch, "port": host.port, "address": host.address}

            def client(principal, token):
                transport = network.transport(principal, token, **place)
                return httpx.AsyncClient(transport=transport, base_url="http://controller", timeout=20)

            async with client("admin", ADMIN) as admin:
                assert (await admin.get("/v1/schemas/stock")).json()["number"] == 0
                plan = await admin.get("/v1/schemas/stock/plan")
                again = await admin.get("/v1/schemas/stock/plan", headers={"If-None-Match": plan.headers["etag"]})
                assert (plan.status_code, again.status_code) == (200, 304)
                assert (await admin.get("/v1/stream")).status_code == 400
                attached = await admin.post("/v1/hosts/any/attachments")
                assert attached.json()["host"] == "h1"
            async with client("sue", made["token"]) as sue:
                wanted = {"schema": "stock", "filter": "price < 10", "host": "h1"}
                answers = await asyncio.gather(*(sue.post("/v1/subscriptions", json=wanted) for _ in range(10)))
                assert {each.status_code for each in answers} == {201}
                assert controller.state.registrations.subscriptions_of("sue") == 10
                refused = await sue.post("/v1/subscriptions", json=wanted | {"filter": "price > 10"})
                assert refused.status_code == 403
                assert refused.json()["error"]["allowed"] == "price < 50"
                assert (await sue.get("/v1/principals")).status_code == 403
                await controller.submit(RemovePrincipal("sue"))
                assert (await sue.get("/v1/schemas")).status_code == 401
            await network.server.close()

    run(main, 60)


def test_silence_is_an_error_that_says_what_may_be_wrong():
    async def main():
        network = LossyNetwork()
        async with httpx.AsyncClient(transport=network.transport(), base_url="http://c", timeout=0.2) as client:
            with pytest.raises(httpx.ConnectTimeout, match="no controller answers"):
                await client.get("/")
            echoing(network)
            assert (await client.get("/")).status_code == 207
        async with httpx.AsyncClient(
            transport=network.transport("ann", "wrong"), base_url="http://c", timeout=0.2
        ) as client:
            with pytest.raises(httpx.ConnectTimeout, match="another token"):
                await client.get("/")

    run(main)
