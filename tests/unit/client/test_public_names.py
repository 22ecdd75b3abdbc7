"""What programs may rely on."""

import subprocess
import sys

import pytest

import pleroma
import pleroma.client
from pleroma.client import blocking


def test_the_names():
    assert pleroma.client.__all__ == ["Client", "Publisher", "Subscription", "connect"]
    assert pleroma.connect is pleroma.client.connect
    shared = {"advertise", "close", "create_schema", "host", "info", "is_connected", "schema", "schemas", "subscribe"}
    assert shared <= set(dir(pleroma.client.Client))
    assert shared <= set(dir(blocking.Client))


def test_other_names_are_not_there():
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        pleroma.conect  # noqa: B018


def test_nothing_is_loaded_before_it_is_needed():
    program = (
        "import sys, pleroma; assert not {'asyncio', 'httpx', 'lark'} & set(sys.modules);"
        "pleroma.connect('http://x'); assert not {'httpx', 'numpy', 'numba', 'lark'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)
