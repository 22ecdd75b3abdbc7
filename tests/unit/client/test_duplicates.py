from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.client.session.duplicates import Duplicates

IDENTITIES = st.integers(0, 90).map(lambda number: number.to_bytes(1))


def test_the_second_time_is_a_repetition():
    seen = Duplicates()
    assert [seen.repeats(each) for each in (b"a", b"a", b"b", b"a")] == [False, True, False, True]


@given(st.lists(IDENTITIES, max_size=60), st.integers(1, 8))
def test_at_least_the_last_few_are_remembered_and_memory_is_bounded(identities, window):
    seen, last = Duplicates(window), deque(maxlen=window)
    for each in identities:
        before = list(last)
        repeated = seen.repeats(each)
        if each in before:
            assert repeated
        else:
            assert not repeated or each in identities  # a longer memory is fine, inventing one is not
        if not repeated:
            last.append(each)
        assert len(seen) <= 2 * window


@given(st.lists(IDENTITIES, max_size=60, unique=True), st.integers(1, 8))
def test_what_never_came_is_no_repetition(identities, window):
    seen = Duplicates(window)
    assert not any(seen.repeats(each) for each in identities)


def test_a_window_of_nothing_is_refused():
    with pytest.raises(ValueError, match="window of 0"):
        Duplicates(0)
