"""Offices that one process at a time holds: who gets them, who loses them, and that generations grow."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pleroma.control.log.etcd import EtcdAddress, EtcdLease, EtcdLog, OfficeHolder
from pleroma.control.log.etcd.etcd_gateway import EtcdGateway
from pleroma.control.log.etcd.etcd_lease import Office
from pleroma.control.log.etcd.transaction import delete
from pleroma.errors import LogError
from support.cutting_proxy import CuttingProxy
from support.programs import environment
from support.waiting import wait_until

HOLDER = Path(__file__).with_name("office_holder.py")


@pytest.fixture
def log(url):
    with EtcdLog.open(url) as opened:
        yield opened


@pytest.fixture
def office(log):
    with log.office("teller") as made:
        yield made


@pytest.fixture
def holder(url):
    """Another process that holds the office, and its generation."""
    command = [sys.executable, str(HOLDER), url, "teller"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment(), **pipes) as process:
        try:
            held, generation = process.stdout.readline().split()
            assert held == "held"
            yield process, OfficeHolder(b"a process", int(generation))
        finally:
            process.kill()


def claimed(office, value=b"me"):
    """Claim the office as soon as nobody holds it."""

    def claim():
        found = office.claim(value, 2)
        return found if isinstance(found, EtcdLease) else None

    return wait_until(claim, "the office does not get free")


def test_one_holds_the_office_and_others_are_told_who(office, log):
    assert office.holder() is None
    lease = office.claim(b"one", 2)
    assert lease.is_held
    assert office.claim(b"two", 2) == office.holder() == OfficeHolder(b"one", lease.generation)
    other = log.office("another").claim(b"two", 2)
    assert other.is_held
    other.release()
    lease.release()
    assert not lease.is_held
    assert office.holder() is None


def test_an_office_that_is_kept_outlasts_its_lease(office):
    lease = office.claim(b"one", 2)
    assert not office.wait_for_change(OfficeHolder(b"one", lease.generation), 5)
    assert lease.is_held
    lease.release()


def test_generations_grow_and_who_waits_is_woken(office):
    lease = office.claim(b"one", 2)
    known = OfficeHolder(b"one", lease.generation)
    later = threading.Timer(0.3, lease.release)
    later.start()
    began = time.monotonic()
    assert office.wait_for_change(known, 30)
    assert time.monotonic() - began < 10
    later.join()
    following = claimed(office)
    assert following.generation > lease.generation
    following.release()


def test_the_office_of_a_killed_process_gets_free(office, holder):
    process, known = holder
    assert office.claim(b"me", 2) == known
    process.kill()
    assert office.wait_for_change(known, 30)
    lease = claimed(office)
    assert lease.generation > known.generation
    lease.release()


def test_a_process_that_slept_past_its_lease_knows_that_it_holds_nothing(office, holder):
    process, known = holder
    process.send_signal(signal.SIGSTOP)
    lease = claimed(office)
    assert lease.generation > known.generation
    process.send_signal(signal.SIGCONT)
    assert process.stdout.readline() == "lost\n"
    process.stdin.close()
    assert process.stdout.readline() == "no longer\n"
    assert lease.is_held
    lease.release()


def test_a_holder_that_is_cut_off_gives_up_before_another_can_begin(etcd, url, office):
    name = url.rpartition("/")[2]
    with CuttingProxy(etcd.endpoints[0], b"") as proxy:
        gateway = EtcdGateway(EtcdAddress.parse(f"etcd://{proxy.endpoint}/{name}"))
        lost = threading.Event()
        lease = Office(gateway, office.key).claim(b"cut off", 2, lost.set)
        assert lease.is_held
        proxy.refuse()
        while isinstance(following := office.claim(b"me", 2), OfficeHolder):
            time.sleep(0.01)
        assert not lease.is_held
        assert lost.wait(10)
        assert following.generation > lease.generation
        gateway.close()
        lease.release()
        following.release()


def test_an_office_that_was_taken_away_is_lost(office, log):
    lost = threading.Event()
    lease = office.claim(b"one", 2, lost.set)
    log.gateway.ask("kv/txn", {"success": [delete(office.key)]})
    assert lost.wait(10)
    assert not lease.is_held
    lease.release()


def test_a_leader_that_dies_takes_no_office_away(etcd, office):
    lease = office.claim(b"one", 4)
    etcd.kill(wait_until(lambda: etcd.leader, "there is no leader"))
    assert not office.wait_for_change(OfficeHolder(b"one", lease.generation), 6)
    assert lease.is_held
    lease.release()


def test_a_lease_has_a_shortest_length(office):
    with pytest.raises(LogError, match="seconds: a lease lasts at least 2 seconds, not 1"):
        office.claim(b"one", 1)
