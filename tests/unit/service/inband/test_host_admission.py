"""Which host a request comes from: the one known at its place, or a new one where the network learns hosts."""

import asyncio

import pytest

from pleroma.control import LearnHost
from pleroma.routing import Topology
from support.inband_echo import asked, echoing
from support.inband_pipes import LossyNetwork
from support.waiting import run

NEW = {"switch": "R2", "port": 9, "address": "fd00::99", "mac": "02:00:00:00:00:99"}


def test_an_unknown_host_joins_where_the_network_learns():
    async def main():
        network = LossyNetwork()
        server = echoing(network, joins=True)
        await asked(network.conversation(host="kiosk", **NEW))
        (scope,) = server._app.scopes
        assert scope["pleroma.in_band"].host == "kiosk"
        host = server._controller.state.topology.host["kiosk"]
        assert (host.switch, host.port, host.address, host.mac) == tuple(NEW.values())
        assert server._controller.state.router.topology.host["kiosk"] == host
        await asked(network.conversation(host="kiosk", **NEW))
        assert server._controller.state.topology.host["kiosk"] is host

    run(main)


def test_a_host_that_wants_no_name_is_called_by_its_address():
    async def main():
        network = LossyNetwork()
        server = echoing(network, joins=True, topology=Topology((), (), ()))
        await asked(network.conversation(**NEW | {"address": "10.0.0.9"}))
        assert list(server._controller.state.topology.host) == ["10.0.0.9"]

    run(main)


@pytest.mark.parametrize(
    ("host", "place", "joins", "status"),
    [
        ("", NEW, False, 403),
        ("", {"address": "fd00::99"}, True, 403),
        ("", {"address": "fd00::99"}, False, 403),
        ("", {"mac": "02:00:00:00:00:99"}, True, 403),
        ("", {"mac": "02:00:00:00:00:99"}, False, 403),
        ("h1", NEW, True, 409),
        ("any", NEW, True, 400),
        ("", NEW | {"address": "fd00::1"}, True, 409),
    ],
)
def test_a_place_or_a_name_that_is_not_ones_own_is_refused(host, place, joins, status):
    async def main():
        network = LossyNetwork()
        server = echoing(network, joins=joins)
        before = server._controller.state.topology
        answer = await asked(network.conversation(host=host, **place))
        assert answer.status == status
        assert not server._app.asked
        assert server._controller.state.topology is before

    run(main)


def test_a_hello_alone_changes_nothing():
    """It may be a recorded one; only who makes a request of the new session has the token."""

    async def main():
        network = LossyNetwork()
        server = echoing(network, joins=True)
        conversation = network.conversation(host="kiosk", **NEW)
        async with asyncio.timeout(5):
            await conversation._begin_session()
        assert "kiosk" not in server._controller.state.topology.host

    run(main)


def test_learning_is_the_command_that_administrators_use():
    assert LearnHost("kiosk", *NEW.values()).to_json()["do"] == "learn_host"
