"""Who holds how much of the room for connections, and who gives way."""

import pytest

from pleroma.service.http.connections.caller_address import caller_address
from pleroma.service.http.connections.connection_table import SLOT_BYTES, ConnectionTable


class Connection:
    def __init__(self, table, address="a"):
        self.is_cut = False
        self.late = None
        self.seat = table.join(self, address)

    def cut(self):
        self.is_cut = True  # that it is closed, a server learns only later

    def overdue(self):
        return self.late


def table(anonymous=8, known=24):
    made = ConnectionTable(anonymous + known)
    assert (made.anonymous.slots, made.known.slots) == (anonymous, known)
    return made


def is_cut(connections):
    return [each.is_cut for each in connections]


def read(table):
    return {
        (sample.name, *sample.labels.values()): sample.value for family in table.metrics() for sample in family.samples
    }


def test_the_oldest_connection_of_an_address_gives_way_to_its_newest():
    crowd = table()
    mine = [Connection(crowd) for _ in range(6)]
    assert is_cut(mine) == [True, True, False, False, False, False]
    assert read(crowd)["pleroma_connections", "anonymous"] == 4
    assert read(crowd)["pleroma_connections_cut_total", "room"] == 2


def test_an_address_does_not_push_out_another():
    crowd = table()
    mine = Connection(crowd, "mine")
    theirs = [Connection(crowd, "theirs") for _ in range(100)]
    assert not mine.is_cut
    assert is_cut(theirs) == [True] * 97 + [False] * 3


def test_the_oldest_of_all_gives_way_when_many_addresses_take_everything():
    crowd = table()
    all_of_them = [Connection(crowd, f"a{i}") for i in range(10)]
    assert is_cut(all_of_them) == [True] * 2 + [False] * 8


def test_a_connection_that_has_shown_a_token_makes_room_and_keeps_its_own():
    crowd = table()
    first = Connection(crowd)
    first.seat.belong_to("ann")
    for _ in range(100):
        Connection(crowd)
    assert not first.is_cut
    assert (len(crowd.anonymous), len(crowd.known)) == (4, 1)
    first.seat.belong_to("ann")
    assert len(crowd.known) == 1


def test_a_token_that_is_no_longer_valid_makes_a_connection_anonymous_again():
    crowd = table()
    first = Connection(crowd)
    first.seat.belong_to("ann")
    first.seat.belong_to(None)
    assert (len(crowd.anonymous), len(crowd.known)) == (1, 0)
    for _ in range(3):
        Connection(crowd)
    assert not first.is_cut
    Connection(crowd)
    assert first.is_cut


def test_a_principal_does_not_push_out_the_connections_of_another():
    crowd = table()
    mine = Connection(crowd)
    mine.seat.belong_to("ann")
    theirs = [Connection(crowd, f"a{i}") for i in range(8)]
    for each in theirs:
        each.seat.belong_to("ben")
        each.seat.weigh(2 * SLOT_BYTES)
    assert not mine.is_cut
    assert is_cut(theirs) == [True] * 5 + [False] * 3  # of 24 slots, ann has 1 and ben at most 11


def test_a_principal_with_too_many_connections_loses_its_oldest():
    crowd = table()
    mine = [Connection(crowd, f"a{i}") for i in range(2)]
    for _ in range(12):
        mine.append(Connection(crowd, f"a{len(mine)}"))
        mine[-3].seat.belong_to("ann")
    assert (is_cut(mine), len(crowd.known)) == ([False] * 14, 12)
    mine[-2].seat.belong_to("ann")
    assert is_cut(mine) == [True] + [False] * 13


def test_a_connection_may_show_the_tokens_of_several_principals_and_belongs_to_the_last():
    crowd = table()
    shared = Connection(crowd)
    shared.seat.belong_to("ann")
    shared.seat.belong_to("ben")
    assert (shared.seat.owner, len(crowd.known), crowd.known.taken) == ("ben", 1, 1)


def test_owners_without_connections_are_forgotten():
    crowd = table()
    for number in range(100):
        Connection(crowd, f"a{number}").seat.leave()
    assert crowd.anonymous._by_owner == crowd.anonymous._taken_by == {}


def test_what_a_connection_holds_counts_like_further_connections():
    crowd = table()
    first, second = Connection(crowd), Connection(crowd)
    second.seat.weigh(SLOT_BYTES - 1)
    assert crowd.anonymous.taken == 2
    second.seat.weigh(2 * SLOT_BYTES)
    assert crowd.anonymous.taken == 4
    assert not first.is_cut
    second.seat.weigh(3 * SLOT_BYTES)
    assert (first.is_cut, second.is_cut, crowd.anonymous.taken) == (True, False, 4)
    second.seat.weigh(0)
    assert crowd.anonymous.taken == 1
    second.seat.weigh(9 * SLOT_BYTES)
    assert (second.is_cut, crowd.anonymous.taken) == (True, 0)


def test_a_connection_that_has_left_takes_nothing_any_more():
    crowd = table()
    gone = Connection(crowd)
    gone.seat.leave()
    gone.seat.leave()
    gone.seat.weigh(5 * SLOT_BYTES)
    gone.seat.belong_to("ann")
    assert (crowd.anonymous.taken, crowd.known.taken, len(crowd.anonymous), len(crowd.known)) == (0, 0, 0, 0)


def test_connections_that_are_overdue_are_cut_and_counted():
    crowd = table()
    early, late, known = Connection(crowd), Connection(crowd), Connection(crowd)
    known.seat.belong_to("ann")
    late.late, known.late = "late", "unread"
    crowd.sweep()
    assert (is_cut([early, late, known]), crowd.tick) == ([False, True, True], 1)
    counted = read(crowd)
    assert (counted["pleroma_connections_cut_total", "late"], counted["pleroma_connections_cut_total", "unread"]) == (
        1,
        1,
    )


@pytest.mark.parametrize(
    ("address", "known_as"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::", "2001:db8:1:3::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::1", "::/64"),
        ("not:an:address", "not:an:address"),
        ("", ""),
    ],
)
def test_all_of_an_ipv6_network_is_one_caller(address, known_as):
    assert caller_address(address) == known_as
