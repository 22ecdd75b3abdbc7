"""Registrations as events are looked up by: the same whether they came one by one or all at once."""

import random

import pytest

from pleroma.broker import MatchState, ProgramOwner, match_state
from pleroma.content.filter_json import to_json
from pleroma.control.state.command import canonical
from pleroma.control.state.records import Registered, SchemaEntry
from pleroma.control.state.registrations import Registrations
from pleroma.index import Dz, DzSet
from support.broker_parts import some_event, some_filter
from support.strategies import STOCK

ENTRY = SchemaEntry(STOCK, 3, Dz(1), [])


def registered(number, kind, wanted, lease="x"):
    name = f"{kind[0]}{number}"
    boxes = canonical(to_json(wanted))
    return Registered(name, kind, "ann", "broker", ENTRY, boxes, DzSet(), number * (kind[0] == "a"), lease)


def subscribed(chance, many):
    """Registrations: so many subscriptions, each under a lease of its own."""
    registrations = Registrations()
    for number in range(1, many + 1):
        registrations.add(registered(number, "subscription", some_filter(chance), f"lease {number}"))
    return registrations


def check(made, registrations, chance):
    for _ in range(50):
        event = some_event(chance)
        wanted = {ProgramOwner("ann", each.lease) for each in registrations.values() if each.filter.matches(event)}
        assert made.schemas[3].owners(event) == wanted


@pytest.mark.parametrize("many", [5, 1000])
def test_it_follows_the_registrations_from_where_it_stands(monkeypatch, many):
    """Few or, as for the engine, many at the start."""
    monkeypatch.setattr(match_state, "MIN_ENGINE_FILTERS", many)
    chance, made = random.Random(many), MatchState()
    registrations = subscribed(chance, 60)
    made.follow(registrations)
    check(made, registrations, chance)
    for number in range(100, 140):
        registrations.add(registered(number, "subscription", some_filter(chance), f"lease {number}"))
        registrations.remove(chance.choice(list(registrations.values())))
    check(made, registrations, chance)
    assert len(made) == len(registrations)


def test_advertisements_are_found_by_their_number_until_they_are_withdrawn():
    registrations, made = Registrations(), MatchState()
    made.follow(registrations)
    chance = random.Random(4)
    advertised = registered(7, "advertisement", some_filter(chance))
    registrations.add(advertised)
    found = made.advertisements[7]
    assert (found.id, found.owner, found.filter) == ("a7", ProgramOwner("ann", "x"), advertised.filter)
    for event in [some_event(chance) for _ in range(30)]:
        assert found.has(event) == advertised.filter.matches(event)
    registrations.remove(advertised)
    assert not made.advertisements


def test_a_schema_is_found_by_name_once_something_stood_in_it():
    registrations, made = subscribed(random.Random(7), 1), MatchState()
    assert made.find_schema("stock") is None
    made.follow(registrations)
    assert made.find_schema("stock") is made.schemas[3]
