"""Which sockets are attached at a port, and for how long."""

import math

import pytest

from pleroma.errors import RoutingError
from pleroma.wire import attach
from pleroma.wire.attach import AttachKind
from pleroma.wire.socket_sessions import AttachOutcome, SocketSessions

A, B = bytes(16), bytes(range(16))
ONE, TWO = ("127.0.0.1", 1001), ("127.0.0.1", 1002)


def sessions(*secrets, seconds=10):
    made = SocketSessions()
    for secret in secrets:
        made.admit(secret, secret, seconds, now=0)
    return made


def sockets(made):
    """The attached sockets, with the secrets of their sessions."""
    assert all(session.socket == socket for socket, session in made.sockets.items())
    return {socket: session.owner for socket, session in made.sockets.items()}


def test_only_who_was_admitted_can_attach():
    host = sessions(A)
    assert not host.attach(B, ONE, now=1)
    assert sockets(host) == {}
    assert host.attach(A, ONE, now=1)
    assert sockets(host) == {ONE: A}


def test_repeating_keeps_a_session_and_silence_ends_it():
    host = sessions(A, B)
    host.attach(A, ONE, now=0)
    host.attach(B, TWO, now=0)
    assert host.expire(9) == 10
    host.attach(A, ONE, now=9)
    assert host.expire(10) == 19
    assert sockets(host) == {ONE: A}
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
    assert sockets(host) == {}
    assert not host.end(A)
    assert not host.attach(A, ONE, now=0)


def test_attaching_another_socket_moves_the_session():
    host = sessions(A)
    host.attach(A, ONE, now=0)
    host.attach(A, TWO, now=0)
    assert sockets(host) == {TWO: A}
    host.end(A)
    assert sockets(host) == {}


def test_a_socket_has_one_session_the_last():
    host = sessions(A, B)
    host.attach(A, ONE, now=0)
    host.attach(B, ONE, now=0)
    assert sockets(host) == {ONE: B}
    host.end(A)
    assert sockets(host) == {ONE: B}
    host.end(B)
    assert sockets(host) == {}


@pytest.mark.parametrize("seconds", [0, -1, math.inf, math.nan])
def test_a_time_to_live_is_a_time(seconds):
    with pytest.raises(RoutingError, match=f"seconds: {seconds} is not a time to live"):
        sessions(A, seconds=seconds)


def test_a_secret_has_sixteen_bytes_and_is_given_once():
    with pytest.raises(RoutingError, match="secret: has 16 bytes, not 15"):
        sessions(bytes(15))
    with pytest.raises(RoutingError, match="secret: is in use"):
        sessions(A, A)


def test_a_frame_attaches_and_detaches_and_is_answered():
    host = sessions(A)
    assert host.take(attach.pack(AttachKind.ATTACH, A), ONE, now=1) == (True, attach.pack(AttachKind.ATTACHED, A))
    assert host.take(attach.pack(AttachKind.ATTACH, B), TWO, now=1) == (False, attach.pack(AttachKind.REFUSED, B))
    assert sockets(host) == {ONE: A}
    assert host.take(attach.pack(AttachKind.DETACH, A), TWO, now=1) == AttachOutcome(True)
    assert host.take(attach.pack(AttachKind.DETACH, A), TWO, now=1) == AttachOutcome(False)
    assert len(host) == 0


@pytest.mark.parametrize("kind", [AttachKind.ATTACHED, AttachKind.REFUSED])
def test_an_answer_that_nobody_asked_for_changes_nothing(kind):
    host = sessions(A)
    host.attach(A, ONE, now=0)
    assert host.take(attach.pack(kind, A), TWO, now=0) == AttachOutcome(False)
    assert sockets(host) == {ONE: A}


def test_whoever_wants_to_know_is_told_of_every_socket_that_comes_and_goes():
    said = []
    host = SocketSessions(lambda s: said.append(("on", s.owner)), lambda s: said.append(("off", s.owner)))
    for secret, name in ((A, "a"), (B, "b")):
        host.admit(secret, name, 10, now=0)
    host.attach(A, ONE, now=0)
    host.attach(A, ONE, now=1)  # kept
    host.attach(B, ONE, now=1)  # taken over
    host.expire(11)
    assert said == [("on", "a"), ("off", "a"), ("on", "b"), ("off", "b")]
