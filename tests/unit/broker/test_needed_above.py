"""What a broker tells the one above: what is registered when it begins to follow, and every change from then on."""

from pleroma.broker.needed_above import NeededAbove
from pleroma.content import Filter
from pleroma.content.filter_json import to_json
from pleroma.control.state.command import canonical
from pleroma.control.state.records import Registered, SchemaEntry
from pleroma.control.state.registrations import Registrations
from pleroma.index import Dz, DzSet
from support.strategies import STOCK

ENTRY = SchemaEntry(STOCK, 3, Dz(1), [])


def registered(id, kind, text):
    boxes = canonical(to_json(Filter.parse(STOCK, text)))
    return Registered(id, kind, "ann", "broker", ENTRY, boxes, DzSet(), 0, None)


def test_it_has_what_is_registered_and_every_change():
    registrations, needed = Registrations(), NeededAbove()
    first, second = registered("s1", "subscription", "price < 5"), registered("s2", "subscription", "price > 9")
    for each in (first, second):
        registrations.add(each)
    needed.follow(registrations)
    assert needed.subscriptions() == {"s1": first.filter, "s2": second.filter}
    assert needed.changed.is_set()
    before = needed.version
    needed.changed.clear()
    advertised = registered("a9", "advertisement", "volume < 5")
    registrations.add(advertised)
    assert needed.advertisements == {"a9": advertised.filter}
    assert needed.changed.is_set()
    registrations.remove(first)
    registrations.remove(advertised)
    assert (needed.subscriptions(), needed.advertisements) == ({"s2": second.filter}, {})
    assert needed.version == before + 3


def test_a_subscription_inside_another_is_needed_once_the_other_is_withdrawn():
    registrations, needed = Registrations(), NeededAbove()
    needed.follow(registrations)
    inner, outer = registered("s1", "subscription", "price < 5"), registered("s2", "subscription", "price < 9")
    registrations.add(inner)
    registrations.add(outer)
    assert needed.subscriptions() == {"s2": outer.filter}
    registrations.remove(outer)
    assert needed.subscriptions() == {"s1": inner.filter}
