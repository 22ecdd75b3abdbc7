from pleroma.client.links.keepalive import MAX_UNANSWERED_PROBES, PROBE_SECONDS, KeepAlive


def test_attach_is_said_at_once_and_then_three_times_in_the_time_allowed():
    alive = KeepAlive(30.0, now=100.0)
    assert alive.wait(100.0) == 0.0
    alive.sent(100.0)
    assert alive.is_doubtful
    alive.answered(100.1)
    assert not alive.is_doubtful
    assert alive.wait(100.1) == 10.0
    assert alive.wait(105.1) == 5.0
    assert alive.wait(200.0) == 0.0


def test_an_answer_that_does_not_come_is_asked_for_soon_and_then_given_up():
    alive = KeepAlive(30.0, now=0.0)
    alive.sent(0.0)
    alive.answered(0.0)
    now = 10.0
    for _ in range(MAX_UNANSWERED_PROBES):
        alive.sent(now)
        assert not alive.is_lost
        assert alive.wait(now) == PROBE_SECONDS
        now += PROBE_SECONDS
    alive.sent(now)
    assert alive.is_lost


def test_a_late_answer_is_an_answer():
    alive = KeepAlive(30.0, now=0.0)
    alive.sent(0.0)
    alive.sent(0.25)
    alive.answered(0.4)
    assert not alive.is_doubtful
    alive.sent(11.0)
    assert not alive.is_lost


def test_doubt_asks_at_once_but_does_not_hurry_what_is_asked_already():
    alive = KeepAlive(30.0, now=0.0)
    alive.sent(0.0)
    alive.answered(0.0)
    alive.doubt(2.0)
    assert alive.wait(2.0) == 0.0
    alive.sent(2.0)
    alive.doubt(2.1)
    assert alive.wait(2.1) > 0.1


def test_a_refusal_needs_no_second_one():
    alive = KeepAlive(30.0, now=0.0)
    alive.refused()
    assert alive.is_lost
