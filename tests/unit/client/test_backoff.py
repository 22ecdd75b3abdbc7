import pytest

from pleroma.client.backoff import Backoff


def test_pauses_grow_to_a_limit_and_start_again_after_success():
    backoff = Backoff(0.1, 1.0, 2.0, chance=lambda: 1.0)
    assert [round(backoff.pause(), 3) for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    backoff.reset()
    assert backoff.pause() == 0.1


def test_pauses_differ_but_are_never_less_than_half():
    assert Backoff(1.0, 1.0, chance=lambda: 0.0).pause() == 0.5
    drawn = {Backoff(1.0, 1.0).pause() for _ in range(50)}
    assert len(drawn) > 40
    assert all(0.5 <= each <= 1.0 for each in drawn)


def test_what_the_controller_asked_for_is_heeded():
    assert Backoff(0.1, 1.0).pause(at_least=7.0) == 7.0


@pytest.mark.parametrize("settings", [(0, 1, 2), (2, 1, 2), (0.1, 1, 0.5)])
def test_impossible_settings(settings):
    with pytest.raises(ValueError, match="pause"):
        Backoff(*settings)
