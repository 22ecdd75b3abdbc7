"""Whose a publisher's number is, and how those are counted and named who use another's."""

from structlog.testing import capture_logs

from pleroma.control.entry_guard import FORGED_LOG_SECONDS, EntryGuard
from pleroma.control.state.records import Registered, SchemaEntry
from pleroma.control.state.registrations import Registrations
from pleroma.index import Dz, DzSet
from support.strategies import STOCK

ENTRY = SchemaEntry(STOCK, 1, Dz(1), [])


def advertisement(number, principal, host):
    return Registered(f"a{number}", "advertisement", principal, host, ENTRY, "[]", DzSet(), number)


def test_a_number_is_its_principals_at_its_host_while_the_advertisement_stands():
    guard, registrations = EntryGuard(), Registrations()
    early, late = advertisement(4, "ann", "h1"), advertisement(9, "ben", "h2")
    registrations.add(early)
    guard.follow(registrations)
    registrations.add(late)
    registrations.add(Registered("s5", "subscription", "ann", "h1", ENTRY, "[]", DzSet(), 0))
    assert [guard.may_publish(4, "ann", host) for host in ("h1", "h2")] == [True, False]
    assert [guard.may_publish(9, name, "h2") for name in ("ann", "ben")] == [False, True]
    assert guard.may_publish(0, "ann", "h1") is None
    registrations.remove(late)
    registrations.remove(registrations["s5"])
    assert guard.may_publish(9, "ben", "h2") is None
    assert guard.may_publish(4, "ann", "h1")


def test_forged_events_are_counted_by_sender_and_said_now_and_then():
    now = [0.0]
    guard = EntryGuard(clock=lambda: now[0])
    with capture_logs() as said:
        for _ in range(5):
            guard.count("h1", "eve", ("127.0.0.1", 5000))
        guard.count("h2", "eve", ("127.0.0.1", 5001))
        now[0] += FORGED_LOG_SECONDS
        guard.count("h1", "eve", ("127.0.0.1", 5000))
    assert guard.forged == {("h1", "eve"): 6, ("h2", "eve"): 1}
    assert [(each["host"], each["principal"], each["dropped"]) for each in said] == [
        ("h1", "eve", 1),
        ("h2", "eve", 1),
        ("h1", "eve", 6),
    ]
