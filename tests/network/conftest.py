"""Real switches take root and Open vSwitch. Without them these tests are skipped, and the summary says so."""

from pathlib import Path

import pytest

from pleroma.lab import missing
from support.etcd_fixtures import etcd, etcd_members, url

__all__ = ["etcd", "etcd_members", "url"]

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    reason = missing()
    if reason is not None:
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=f"NO NETWORK TESTS ON REAL SWITCHES: {reason}"))
