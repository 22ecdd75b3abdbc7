"""Gaps in the numbers of publishers, against a slow twin that remembers every number."""

from hypothesis import given
from hypothesis import strategies as st

from pleroma.client.session.sequence_gaps import (
    MAX_JUMP,
    MAX_NUMBERED_PUBLISHERS,
    SETTLED_NS,
    WINDOW_NUMBERS,
    SequenceGaps,
)


def missed(numbers, publisher=1):
    gaps = SequenceGaps()
    return [gaps.missed(publisher, number, 0) for number in numbers]


@given(st.lists(st.integers(1, 400), unique=True, min_size=1), st.lists(st.integers(0, 5), min_size=1))
def test_what_is_far_behind_and_never_came_is_missed_once(numbers, shifts):
    numbers = sorted(numbers)  # some overtake others, by a few places
    for at, shift in zip(range(0, len(numbers) - 6, 6), shifts * len(numbers), strict=False):
        numbers[at], numbers[at + shift] = numbers[at + shift], numbers[at]
    if any(abs(a - b) >= WINDOW_NUMBERS for a, b in zip(numbers, sorted(numbers), strict=True)):
        return
    passed = max(numbers) - WINDOW_NUMBERS
    expected = [n for n in range(numbers[0], passed + 1) if n not in numbers]
    assert sum(missed(numbers)) == len(expected)


def test_nothing_is_missed_where_all_come_or_some_overtake_others():
    assert sum(missed(range(5, 1000))) == 0
    assert sum(missed([5, *(n ^ 1 for n in range(6, 1000))])) == 0
    assert sum(missed([100, 99, 98, *range(101, 1000)])) == 0  # published before the first that came


def test_a_number_is_missed_when_the_window_has_passed_it():
    counts = missed([1, *range(3, 200)])
    assert sum(counts) == 1
    assert counts.index(1) == WINDOW_NUMBERS  # the number 2, when 2 + 64 comes


def test_a_large_gap_is_counted_at_once_but_for_the_window():
    assert missed([1, 1001]) == [0, 999 - (WINDOW_NUMBERS - 1)]
    assert sum(missed([1, 1001, 1001 + WINDOW_NUMBERS])) == 999


def test_after_a_pause_what_did_not_come_is_missed():
    gaps, now = SequenceGaps(), 10**18
    assert [gaps.missed(1, n, now) for n in (1, 2, 5)] == [0, 0, 0]
    assert gaps.missed(1, 6, now + SETTLED_NS) == 0
    now += 2 * SETTLED_NS + 1
    assert gaps.missed(1, 8, now) == 2  # 3 and 4; 7 may still come
    assert gaps.missed(1, 7, now) == 0
    assert gaps.missed(1, 9, now + 3 * SETTLED_NS) == 0


def test_a_count_that_begins_anew_misses_nothing():
    assert missed([1000, 1, 2, 3]) == [0, 0, 0, 0]
    assert sum(missed([1000, 1000 - WINDOW_NUMBERS, 1001])) == 1  # it began anew, and the first after that is missed
    assert sum(missed([1000, 1001 - WINDOW_NUMBERS, 1200])) == 199 - (WINDOW_NUMBERS - 1)  # that one was only late
    assert missed([1, MAX_JUMP + 1])[1] > 0
    assert missed([1, MAX_JUMP + 2, MAX_JUMP + 3]) == [0, 0, 0]
    assert missed([1, 2**63]) == [0, 0]


def test_publishers_are_told_apart_and_remembered_up_to_a_bound():
    gaps = SequenceGaps()
    for publisher in range(MAX_NUMBERED_PUBLISHERS + 1):
        assert gaps.missed(publisher, 1, 0) == 0
    assert gaps.missed(1, 1001, 0) > 0
    assert gaps.missed(2, 1001, 0) > 0  # who is known pushes nobody out
    assert gaps.missed(0, 1001, 0) == 0  # forgotten
