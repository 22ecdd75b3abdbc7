"""What a scenario's task answers, wherever it runs."""

import pickle

import pytest

from pleroma.errors import SetupError, SparkError
from pleroma.pipeline.passes.spark_sweep import _answer


def fails(_):
    raise SetupError("is too much", field="bits", value=7)


class Stubborn(Exception):
    """Cannot be made again from its words alone."""

    def __init__(self, one, other):
        super().__init__(one)
        self.other = other


def fails_oddly(_):
    raise Stubborn(1, 2)


def answered(task, scenario):
    return pickle.loads(_answer(pickle.dumps((task, scenario))))  # noqa: S301


def test_a_result_is_an_answer():
    assert answered(abs, -3) == (3, None)


def test_an_error_is_an_answer_too_with_all_that_it_carries():
    result, error = answered(fails, 0)
    assert result is None
    assert isinstance(error, SetupError)
    assert (str(error), error.field, error.value) == ("bits: is too much", "bits", 7)


def test_an_error_that_cannot_travel_is_told_by_another():
    _, error = answered(fails_oddly, 0)
    assert isinstance(error, SparkError)
    assert "Stubborn" in str(error)


def test_work_that_cannot_be_read_is_an_error():
    _, error = pickle.loads(_answer(b"odd"))  # noqa: S301
    assert isinstance(error, pickle.UnpicklingError)


def test_nothing_is_answered_by_a_task_that_is_interrupted():
    with pytest.raises(KeyboardInterrupt):
        answered(interrupted, 0)


def interrupted(_):
    raise KeyboardInterrupt
