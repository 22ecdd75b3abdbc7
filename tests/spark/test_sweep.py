"""Sweeps on Spark."""

import time
from functools import partial
from operator import floordiv
from pathlib import Path

import pytest

from pleroma.experiments.figures.catalogue import SWEEPS
from pleroma.pipeline.passes.spark_sweep import JOBS_PER_CORE, SparkSweep


@pytest.mark.parametrize("figure", ["fig8d"])
def test_a_figure_made_on_spark_is_the_one_made_here(spark, figure):
    steps = []
    here = SWEEPS[figure].run(True, lambda _: None)
    assert SWEEPS[figure].run(True, steps.append, SparkSweep(spark)) == here
    assert sum(steps) == pytest.approx(1)


def test_results_come_in_the_order_of_scenarios(spark):
    assert SparkSweep(spark)(partial(floordiv, 100), [50, 20, 10, 100], lambda _: None) == [2, 5, 10, 1]
    assert SparkSweep(spark)(abs, [], lambda _: None) == []


def begin(folder: Path, number: int) -> None:
    """Says so in a file, in one write."""
    with (folder / "begun").open("a") as file:
        file.write(f"{number}\n")
    time.sleep(0.05)


def test_scenarios_begin_in_the_order_given_but_for_those_that_wait_for_a_core(spark, tmp_path):
    count, at_once = 24, JOBS_PER_CORE * spark.sparkContext.defaultParallelism
    SparkSweep(spark)(partial(begin, tmp_path), range(count), lambda _: None)
    begun = [int(line) for line in (tmp_path / "begun").read_text().split()]
    assert sorted(begun) == list(range(count))
    assert all(place > number - at_once for place, number in enumerate(begun)), begun


def test_the_error_of_a_scenario_is_the_error_of_the_sweep(spark):
    with pytest.raises(ZeroDivisionError):
        SparkSweep(spark)(partial(floordiv, 100), [50, 0, 10], lambda _: None)
