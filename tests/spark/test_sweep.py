"""Sweeps on Spark."""

from functools import partial
from operator import floordiv

import pytest

from pleroma.experiments.figures import SWEEPS
from pleroma.pipeline.sweep import SparkSweep


@pytest.mark.parametrize("figure", ["fig8d"])
def test_a_figure_made_on_spark_is_the_one_made_here(spark, figure):
    steps = []
    here = SWEEPS[figure].run(True, lambda _: None)
    assert SWEEPS[figure].run(True, steps.append, SparkSweep(spark)) == here
    assert sum(steps) == pytest.approx(1)


def test_results_come_in_the_order_of_scenarios(spark):
    assert SparkSweep(spark)(partial(floordiv, 100), [50, 20, 10, 100], lambda _: None) == [2, 5, 10, 1]
    assert SparkSweep(spark)(abs, [], lambda _: None) == []


def test_the_error_of_a_scenario_is_the_error_of_the_sweep(spark):
    with pytest.raises(ZeroDivisionError):
        SparkSweep(spark)(partial(floordiv, 100), [50, 0, 10], lambda _: None)
