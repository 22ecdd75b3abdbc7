"""Who is attached to a live host."""

import math

import pytest

from pleroma.errors import RoutingError
from pleroma.switches.live.host_sessions import Sessions

A, B = bytes(16), bytes(range(16))
ONE, TWO = ("127.0.0.1", 1001), ("127.0.0.1", 1002)


def sessions(*secrets, seconds=10):
    made = Sessions()
    for secret in secrets:
        made.admit(secret, seconds, now=0)
    return made


def test_only_who_was_admitted_can_attach():
    host = sessions(A)
    assert not host.attach(B, ONE, now=1)
    assert host.sockets == {}
    assert host.attach(A, ONE, now=1)
    assert host.sockets == {ONE: A}


def test_repeating_keeps_a_session_and_silence_ends_it():
    host = sessions(A, B)
    host.attach(A, ONE, now=0)
    host.attach(B, TWO, now=0)
    assert host.expire(9) == 10
    host.attach(A, ONE, now=9)
    assert host.expire(10) == 19
    assert host.sockets == {ONE: A}
    assert not host.attach(B, TWO, now=11)
    assert host.expire(19) == math.inf
    assert len(host) == 0


def test_who_never_attaches_is_forgotten_as_well():
    host = sessions(A)
    assert len(host) == 1
    host.expire(10)
    assert not host.attach(A, ONE, now=10)


def test_a_session_ends_once():
    host = sessions(A)
    host.attach(A, ONE, now=0)
    assert host.end(A)
    assert host.sockets == {}
    assert not host.end(A)
    assert not host.attach(A, ONE, now=0)


def test_attaching_another_socket_moves_the_session():
    host = sessions(A)
    host.attach(A, ONE, now=0)
    host.attach(A, TWO, now=0)
    assert host.sockets == {TWO: A}
    host.end(A)
    assert host.sockets == {}


def test_a_socket_has_one_session_the_last():
    host = sessions(A, B)
    host.attach(A, ONE, now=0)
    host.attach(B, ONE, now=0)
    assert host.sockets == {ONE: B}
    host.end(A)
    assert host.sockets == {ONE: B}
    host.end(B)
    assert host.sockets == {}


@pytest.mark.parametrize("seconds", [0, -1, math.inf, math.nan])
def test_a_time_to_live_is_a_time(seconds):
    with pytest.raises(RoutingError, match=f"seconds: {seconds} is not a time to live"):
        sessions(A, seconds=seconds)


def test_a_secret_has_sixteen_bytes_and_is_given_once():
    with pytest.raises(RoutingError, match="secret: has 16 bytes, not 15"):
        sessions(bytes(15))
    with pytest.raises(RoutingError, match="secret: is in use"):
        sessions(A, A)
