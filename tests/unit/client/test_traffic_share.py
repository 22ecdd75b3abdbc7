"""When a subscription brings so much more than it wants that somebody should know."""

import pytest

from pleroma.client.session.traffic_share import TrafficShare


@pytest.mark.parametrize(
    ("delivered", "wanted", "is_poor"),
    [
        (0.31, 0.02, True),
        (0.06, 0.03, True),
        (0.06, 0.031, False),
        (1.0, 0.355, True),
        (0.04, 0.0, False),
        (0.05, 0.0, True),
        (0.5, 0.4, False),
        (0.0, 0.0, False),
        (1.0, 1.0, False),
    ],
)
def test_a_cover_is_poor_that_brings_twice_what_is_wanted_and_a_twentieth_of_all(delivered, wanted, is_poor):
    assert TrafficShare(delivered, wanted, 2000).is_poor is is_poor


def test_there_is_none_where_nothing_was_sampled():
    assert TrafficShare.read({"id": "s1"}) is None
    assert TrafficShare.read({"share": None}) is None
    assert TrafficShare.read({"share": {"delivered": 0.5, "wanted": 0.25, "events": 4}}) == TrafficShare(0.5, 0.25, 4)
