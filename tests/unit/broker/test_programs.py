"""Who is attached to a broker, and whose they are."""

import pytest

from pleroma.broker import ProgramOwner, Programs
from pleroma.errors import RoutingError

A, B, C = (bytes([n]) * 16 for n in (1, 2, 3))
HERE, THERE = ("127.0.0.1", 1000), ("127.0.0.1", 2000)


def attached(**owners):
    """Programs at ports 1, 2, ... with these principals and leases."""
    programs = Programs()
    for number, owner in enumerate(owners.values(), 1):
        secret = bytes([number]) * 16
        programs.sessions.admit(secret, ProgramOwner(*owner), 10.0, 0.0)
        assert programs.sessions.attach(secret, ("here", number), 0.0)
    return programs


def ports(programs, *owner):
    return sorted(each.socket[1] for each in programs.of(ProgramOwner(*owner)))


def test_what_stands_under_a_lease_is_for_the_program_of_that_lease_alone():
    programs = attached(one=("ann", "x"), two=("ann", "y"), three=("bob", "x"))
    assert ports(programs, "ann", "x") == [1]
    assert ports(programs, "ann", "y") == [2]
    assert ports(programs, "ann", "z") == []


def test_without_a_lease_everything_of_the_principal_belongs_together():
    programs = attached(one=("ann", "x"), two=("ann", None), three=("bob", "x"))
    assert ports(programs, "ann", None) == [1, 2]
    assert ports(programs, "ann", "x") == [1, 2]
    assert ports(programs, "bob", None) == [3]


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        (("ann", "x"), ("ann", "x"), True),
        (("ann", "x"), ("ann", "y"), False),
        (("ann", "x"), ("ann", None), True),
        (("ann", None), ("ann", "x"), True),
        (("ann", None), ("bob", None), False),
        (("ann", "x"), ("bob", "x"), False),
    ],
)
def test_owners_belong_together_by_principal_and_by_lease(one, other, together):
    assert ProgramOwner(*one).has(ProgramOwner(*other)) is together


def test_a_program_that_is_silent_for_too_long_is_gone():
    programs = attached(one=("ann", "x"))
    assert programs.sessions.attach(A, ("here", 1), 9.0)
    programs.sessions.expire(18.9)
    assert ports(programs, "ann", "x") == [1]
    programs.sessions.expire(19.0)
    assert ports(programs, "ann", "x") == []
    assert len(programs.sessions) == 0
    assert not programs.sessions.attach(A, ("here", 1), 19.0)


def test_a_program_that_moves_to_another_socket_has_that_one_alone():
    programs = attached(one=("ann", "x"))
    assert programs.sessions.attach(A, THERE, 1.0)
    assert list(programs.sessions.sockets) == [THERE]
    assert ports(programs, "ann", "x") == [2000]


def test_a_socket_belongs_to_the_program_that_took_it_last():
    programs = Programs()
    for secret, name in ((A, "ann"), (B, "bob")):
        programs.sessions.admit(secret, ProgramOwner(name), 10.0, 0.0)
        assert programs.sessions.attach(secret, HERE, 0.0)
    assert ports(programs, "bob") == [1000]
    assert ports(programs, "ann") == []
    assert programs.sessions.end(A)
    assert ports(programs, "bob") == [1000]


def test_a_secret_that_nobody_was_admitted_with_is_worth_nothing():
    programs = Programs()
    assert not programs.sessions.attach(C, HERE, 0.0)
    assert not programs.sessions.end(C)


@pytest.mark.parametrize(
    ("secret", "seconds", "field"), [(b"short", 1.0, "secret"), (A, 0.0, "seconds"), (A, float("inf"), "seconds")]
)
def test_who_is_admitted_has_a_secret_and_a_time_to_live(secret, seconds, field):
    with pytest.raises(RoutingError) as raised:
        Programs().sessions.admit(secret, ProgramOwner("ann"), seconds, 0.0)
    assert raised.value.field == field


def test_a_secret_is_given_once():
    programs = attached(one=("ann", "x"))
    with pytest.raises(RoutingError, match="in use"):
        programs.sessions.admit(A, ProgramOwner("bob"), 1.0, 0.0)
