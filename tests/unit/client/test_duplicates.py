from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.client.session.duplicates import Duplicates

NUMBERS = st.tuples(st.integers(0, 3), st.integers(0, 30))


def test_the_second_time_is_a_repetition():
    seen = Duplicates()
    assert [seen.repeats(1, 7), seen.repeats(1, 7), seen.repeats(2, 7), seen.repeats(1, 8)] == [
        False,
        True,
        False,
        False,
    ]


def test_large_numbers_of_one_publisher_are_not_small_ones_of_another():
    seen = Duplicates()
    assert not seen.repeats(0, 2**64 - 1)
    assert not seen.repeats(1, 2**64 - 1)
    assert not seen.repeats(2**32 - 1, 0)
    assert seen.repeats(0, 2**64 - 1)


@given(st.lists(NUMBERS, max_size=60), st.integers(1, 8))
def test_at_least_the_last_few_are_remembered_and_memory_is_bounded(numbers, window):
    seen, last = Duplicates(window), deque(maxlen=window)
    for each in numbers:
        before = list(last)
        repeated = seen.repeats(*each)
        if each in before:
            assert repeated
        else:
            assert not repeated or each in numbers  # a longer memory is fine, inventing one is not
        if not repeated:
            last.append(each)
        assert len(seen) <= 2 * window


@given(st.lists(NUMBERS, max_size=60, unique=True), st.integers(1, 8))
def test_what_never_came_is_no_repetition(numbers, window):
    seen = Duplicates(window)
    assert not any(seen.repeats(*each) for each in numbers)


def test_forgetting():
    seen = Duplicates()
    seen.repeats(1, 1)
    seen.clear()
    assert not seen.repeats(1, 1)


def test_a_window_of_nothing_is_refused():
    with pytest.raises(ValueError, match="window of 0"):
        Duplicates(0)
