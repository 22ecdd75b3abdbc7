"""What `inband://` means, and who may say it."""

import asyncio
import socket
import subprocess
import sys

import pytest

import pleroma
from pleroma.client.api import ControllerApi
from pleroma.client.inband.inband_address import InbandAddress
from pleroma.client.inband.multicast_pipes import interfaces, open_multicast_pipes
from pleroma.errors import ClientError, ContentError
from pleroma.switches.openflow.tables import CONTROL_ADDRESSES as PASSED_UP
from pleroma.wire.ports import CONTROL_ADDRESSES

V4, V6 = CONTROL_ADDRESSES[4], CONTROL_ADDRESSES[6]


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("inband://", InbandAddress((V6, V4))),
        ("inband:", InbandAddress((V6, V4))),
        ("inband://[ff05::706c]", InbandAddress((V6,))),
        ("inband://239.255.112.108/", InbandAddress((V4,))),
        ("inband://?host=kiosk", InbandAddress((V6, V4), None, "kiosk")),
        ("inband://[ff05::706c]?host=a%20b&interface=eth1", InbandAddress((V6,), "eth1", "a b")),
    ],
)
def test_an_address_says_where_and_who(url, address):
    assert InbandAddress.parse(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "inband://controller",
        "inband://[::1]",
        "inband://10.0.0.1",
        "inband://[ff05::706c]:99",
        "inband://[ff05::706c]/v1",
        "inband://a@[ff05::706c]",
        "inband://?port=5",
        "inband://?host",
        "http://[ff05::706c]",
    ],
)
def test_other_addresses_are_refused(url):
    with pytest.raises((ClientError, ContentError)):
        InbandAddress.parse(url)


def test_it_takes_a_principal_and_a_token():
    for principal, token in ((None, "t"), ("ann", None), ("", "t"), ("a" * 300, "t")):
        with pytest.raises(ClientError, match="principal"):
            ControllerApi("inband://", token, principal)
    assert not ControllerApi("inband://", "t", "ann").has_streams


def test_switches_pass_up_what_is_sent_there():
    assert dict(CONTROL_ADDRESSES) == dict(PASSED_UP)


def test_an_interface_that_is_not_there_is_an_error_of_its_own():
    async def main():
        client = pleroma.connect("inband://?interface=none9", token="t", principal="ann", patience=0)  # noqa: S106
        with pytest.raises(ClientError, match="no interface 'none9'"):
            async with client:
                pass

    asyncio.run(main())


def test_loopback_leads_nowhere():
    lo = socket.if_nametoindex("lo")
    assert lo not in interfaces(None)
    assert interfaces("lo") == [lo]


def test_sockets_are_opened_for_each_kind_of_address_and_closed():
    async def main():
        pipes = open_multicast_pipes((V6, V4), "lo", lambda *_: None)
        assert [each._socket.socket.family for each in pipes] == [socket.AF_INET6, socket.AF_INET]
        for each in pipes:
            each.send(b"")
            each.close()
            each.close()
            each.send(b"into the void")

    asyncio.run(main())


def test_a_sensor_has_all_it_takes():
    code = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"numpy", "os_ken", "starlette", "fastapi", "pydantic", "structlog", "typer"}:
            raise ModuleNotFoundError(f"a sensor has no {name}")

sys.meta_path.insert(0, Refuse())

import pleroma.client.links.native_link, pleroma.client.links.tunnel_link
assert "httpx" not in sys.modules
from pleroma.client.api import ControllerApi
assert not ControllerApi("inband://", "token", "ann").has_streams
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
