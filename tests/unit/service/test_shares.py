"""Shares of what there is only so much of."""

import pytest

from pleroma.errors import TooFast
from pleroma.service.shares import Shares, share


def taken(shares, principal, at_most=1000):
    """How many a greedy principal gets, and why no more."""
    for count in range(at_most):
        try:
            shares.take(principal)
        except TooFast as error:
            return count, error
    raise AssertionError(at_most)


def test_each_greedy_principal_leaves_half_of_what_it_found():
    shares = Shares("streams", 100, 5.0)
    assert [taken(shares, name)[0] for name in ("ann", "ben", "cat", "dan")] == [50, 25, 12, 6]
    assert len(shares) == 93
    assert [shares.held_by(name) for name in ("ann", "eve")] == [50, 0]


def test_the_refusal_says_whose_limit_was_reached_and_when_to_come_again():
    shares = Shares("streams", 4, 5.0)
    _, error = taken(shares, "ann")
    assert error.reason.startswith("ann has 2 streams, and no room for more")
    assert error.seconds == 5.0
    assert [taken(shares, name)[0] for name in ("ben", "cat")] == [1, 1]
    _, error = taken(shares, "dan")
    assert error.reason == "there are 4 streams, and no room for more"


def test_what_is_given_back_can_be_taken_by_others():
    shares = Shares("streams", 4, 5.0)
    give_back = shares.take("ann")
    shares.take("ann")
    assert taken(shares, "ben")[0] == 1
    give_back()
    assert (len(shares), shares.held_by("ann")) == (2, 1)
    shares.take("cat")
    with pytest.raises(TooFast, match="ann has 1 streams"):
        shares.take("ann")


def test_a_share_is_never_nothing():
    assert [share(limit, others) for limit, others in ((1, 0), (2, 0), (10, 0), (10, 4), (10, 9), (10, 10))] == [
        1, 1, 5, 3, 1, 1,
    ]  # fmt: skip
