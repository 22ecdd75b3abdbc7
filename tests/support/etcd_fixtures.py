"""Fixtures: one etcd of three members for all tests of a worker that ask for it, and logs in it."""

import itertools
from collections.abc import Iterator

import pytest

from pleroma.lab.etcd_cluster import EtcdCluster, missing_etcd

_names = itertools.count(1)


@pytest.fixture(scope="session")
def etcd_members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    if (why := missing_etcd()) is not None:
        pytest.skip(why)
    with EtcdCluster.up(tmp_path_factory.mktemp("etcd") / "cluster") as cluster:
        yield cluster


@pytest.fixture
def etcd(etcd_members: EtcdCluster) -> Iterator[EtcdCluster]:
    """The cluster with all its members up and in motion, also after a test that broke it."""
    yield etcd_members
    for name, member in etcd_members.members.items():
        if member.is_up:
            etcd_members.resume(name)
        etcd_members.start(name)


@pytest.fixture
def url(etcd: EtcdCluster) -> str:
    """A log of a name that no other test has."""
    return etcd.url(f"log{next(_names)}")
