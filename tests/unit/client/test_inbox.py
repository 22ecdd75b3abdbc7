from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.client.session.inbox import Inbox, SubscriptionInfo
from pleroma.errors import ClientError
from pleroma.wire import EventPacket
from support.client_parts import quote


def packet(sequence):
    return EventPacket(1, 5, 9, sequence, 0, quote())


def test_first_in_first_out():
    inbox = Inbox(10)
    for n in range(3):
        inbox.put(packet(n))
    assert [inbox.take().sequence for _ in range(3)] == [0, 1, 2]
    assert inbox.take() is None
    assert inbox.info == SubscriptionInfo(delivered=3)


def test_when_it_is_full_the_oldest_goes_and_is_counted():
    inbox = Inbox(3)
    for n in range(8):
        inbox.put(packet(n))
    assert len(inbox) == 3
    assert inbox.info == SubscriptionInfo(delivered=8, dropped=5)
    assert [inbox.take().sequence for _ in range(3)] == [5, 6, 7]


@given(st.lists(st.booleans(), max_size=80), st.integers(1, 5))
def test_nothing_disappears_uncounted(puts, limit):
    inbox, model, taken = Inbox(limit), deque(maxlen=limit), 0
    for n, put in enumerate(puts):
        if put:
            inbox.put(packet(n))
            model.append(n)
        else:
            got = inbox.take()
            assert (got and got.sequence) == (model.popleft() if model else None)
            taken += got is not None
        assert inbox.info.delivered == taken + inbox.info.dropped + len(inbox)
        assert len(inbox) == len(model)


@pytest.mark.parametrize("limit", [0, -1, 2.5, None, True])
def test_a_queue_has_room_for_something(limit):
    with pytest.raises(ClientError, match="queue"):
        Inbox(limit)


def test_what_was_added_to_the_counters():
    before = SubscriptionInfo(1, 2, 3, 4, 5, 6, 7)
    assert SubscriptionInfo(2, 4, 6, 8, 10, 12, 14).since(before) == {
        "delivered": 1,
        "dropped": 2,
        "wanted": 3,
        "wasted": 4,
        "duplicates": 5,
        "forged": 6,
        "missed": 7,
    }
    assert before.copy() == before
    assert before.copy() is not before
