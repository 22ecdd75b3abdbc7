import numpy as np
import pytest

from pleroma.errors import WorkloadError
from pleroma.workloads import rates


@pytest.mark.parametrize("arrivals", [rates.uniform, rates.poisson])
def test_arrivals_are_in_order_and_keep_the_mean_rate(arrivals):
    times = arrivals(5000, 100_000, seed=3)
    assert times.shape == (100_000,)
    assert times[0] >= 0
    assert (np.diff(times) >= 0).all()
    assert 100_000 / times[-1] == pytest.approx(5000, rel=0.02)


@pytest.mark.parametrize("arrivals", [rates.uniform, rates.poisson])
def test_the_same_seed_gives_the_same_arrivals(arrivals):
    assert (arrivals(10, 100, seed=1) == arrivals(10, 100, seed=1)).all()
    assert (arrivals(10, 100, seed=1) != arrivals(10, 100, seed=2)).any()


def per_second(times, seconds):
    return np.histogram(times, bins=seconds, range=(0, seconds))[0]


def test_uniform_arrivals_are_as_many_in_every_second():
    counts = per_second(rates.uniform(50, 50_000), 1000)
    assert np.abs(counts - 50).max() <= 1


def test_poisson_arrivals_come_in_bursts_and_lulls():
    counts = per_second(rates.poisson(50, 50_000), 900)
    assert counts.var() == pytest.approx(counts.mean(), rel=0.2)
    gaps = np.diff(rates.poisson(50, 50_000))
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.03)


def test_no_requests_take_no_time():
    assert rates.uniform(1, 0).size == rates.poisson(1, 0).size == 0


@pytest.mark.parametrize("arrivals", [rates.uniform, rates.poisson])
@pytest.mark.parametrize(
    ("rate", "count", "seed", "field"),
    [
        (0, 1, 0, "rate"),
        (-1, 1, 0, "rate"),
        (float("nan"), 1, 0, "rate"),
        ("fast", 1, 0, "rate"),
        (1, -1, 0, "count"),
        (1, 1.5, 0, "count"),
        (1, 1, -1, "seed"),
        (1, 1, None, "seed"),
    ],
)
def test_an_impossible_rate_count_or_seed_gets_one_clear_error(arrivals, rate, count, seed, field):
    with pytest.raises(WorkloadError) as caught:
        arrivals(rate, count, seed)
    assert caught.value.field == field
