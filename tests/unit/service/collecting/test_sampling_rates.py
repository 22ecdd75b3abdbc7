"""The rate at which publishers sample for a controller that re-plans: it follows the traffic, in few steps."""

import pytest

from pleroma.service.collecting.sampling_rates import FIRST_RATE, LOWEST_RATE, SAMPLES_PER_SECOND, SamplingRates


def after(per_second, seconds=60, rates=None):
    """The rate after so many seconds of so many events a second, and how often it changed."""
    rates, changes = rates or SamplingRates(), 0
    for second in range(seconds):
        rate = rates.rate("stock")
        changes += rates.note("stock", max(round(per_second * rate), 1), rate, float(second))
    return rates.rate("stock"), changes


def test_it_begins_with_a_rate_for_slow_publishers():
    assert SamplingRates().rate("stock") == FIRST_RATE


def test_slow_traffic_is_sampled_whole():
    assert after(20) == (1.0, 1)


@pytest.mark.parametrize("per_second", [1_000, 20_000, 500_000])
def test_fast_traffic_gives_as_many_samples_as_are_wanted(per_second):
    rate, changes = after(per_second)
    assert SAMPLES_PER_SECOND / 2 <= per_second * rate <= SAMPLES_PER_SECOND * 2
    assert changes <= 2


def test_a_rate_that_is_about_right_stays():
    assert after(SAMPLES_PER_SECOND / FIRST_RATE * 1.5) == (FIRST_RATE, 0)


def test_a_rate_never_becomes_nothing():
    assert after(1e9)[0] == LOWEST_RATE


def test_it_follows_traffic_that_falls_off():
    rates = SamplingRates()
    fast, _ = after(20_000, rates=rates)
    for second in range(60, 120):
        rates.note("stock", 1, rates.rate("stock"), float(second))
    assert rates.rate("stock") > 2 * fast


def test_schemas_have_rates_of_their_own():
    rates = SamplingRates()
    after(100_000, rates=rates)
    assert rates.rate("other") == FIRST_RATE


def test_who_claims_to_draw_hardly_anything_does_not_keep_others_from_sampling():
    rates = SamplingRates()
    for second in range(60):
        rates.note("stock", 20, rates.rate("stock"), float(second))
        rates.note("stock", 1, 1e-9, float(second))
    assert rates.rate("stock") >= 0.5


def test_samples_drawn_before_the_rate_was_raised_are_believed():
    rates = SamplingRates()
    after(100_000, rates=rates)
    low = rates.rate("stock")
    for second in range(60, 66):
        rates.note("stock", 1, low, float(second))
    high = rates.rate("stock")
    assert high > 10 * low
    for second in range(70, 76):
        rates.note("stock", 50, low, float(second))
    assert rates.rate("stock") < high
