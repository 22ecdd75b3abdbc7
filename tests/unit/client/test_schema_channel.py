import json
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.client.session.schema_channel import SchemaChannel
from pleroma.errors import PlanError, PleromaError
from pleroma.index import IPV4, IPV6, GridIndex, IndexPlan
from support.client_parts import PREFIX, channel, quote, twice
from support.strategies import STOCK, events


def answer(**changes):
    plan = json.loads(IndexPlan(3, GridIndex.regular(STOCK, 24)).dumps())
    return {"epoch": 3, "number": 5, "prefix": "000101", "members": 8, "plan": plan} | changes


@given(events(STOCK), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1))
def test_a_datagram_carries_the_event_to_its_cell(event, publisher, sequence):
    through = channel(epoch=3)
    ((address, data),) = through.datagrams(event, publisher, sequence, 17)
    assert IPV6.dz(IPv6Address(address), 6 + through.plan.index.bits) == PREFIX.then(through.plan.index.dz(event))
    packet = through.codec.decode(data)
    assert (packet.event, packet.publisher, packet.sequence, packet.time) == (event, publisher, sequence, 17)
    assert (packet.epoch, packet.schema_number) == (3, 5)


@given(events(STOCK))
def test_in_a_network_of_ipv4_the_address_is_one(event):
    through = channel(bits=17).under(IPV4)
    ((address, _),) = through.datagrams(event, 1, 1, 1)
    assert IPV4.dz(IPv4Address(address), 23) == PREFIX.then(through.plan.index.dz(event))


def test_a_plan_that_the_addresses_have_no_room_for_is_refused():
    with pytest.raises(PlanError, match="24 bits behind a prefix of 6 are more than 23"):
        channel(bits=24).under(IPV4)


def test_an_event_in_several_cells_takes_several_datagrams_with_one_content():
    addresses, contents = zip(*channel(index=twice()).datagrams(quote(300.0), 1, 1, 1), strict=True)
    assert len(set(addresses)) == 2
    assert len(set(contents)) == 1


def test_an_event_in_no_cell_takes_none():
    index = twice(quiet=True)
    outside = GridIndex.regular(STOCK, 8)
    narrow = type(index)(STOCK, (index.regions[0], index.regions[2]), repeated=True, quiet=True)
    assert channel(index=narrow).datagrams(quote(900.0), 1, 1, 1) == []
    assert len(channel(index=outside).datagrams(quote(900.0), 1, 1, 1)) == 1


def test_from_the_controllers_answer():
    made = SchemaChannel.from_json(answer(), '"tag"')
    assert (made.number, made.prefix, made.epoch, made.schema, made.etag) == (5, PREFIX, 3, STOCK, '"tag"')


@pytest.mark.parametrize(
    "damage",
    [
        {"number": "5"},
        {"number": True},
        {"number": 2**16},
        {"number": -1},
        {"prefix": 5},
        {"prefix": "012"},
        {"prefix": "0" * 100},
        {"plan": None},
        {"plan": answer()["plan"] | {"epoch": 4}},  # the checksum is another plan's
        {"plan": "text"},
    ],
)
def test_a_damaged_answer_is_refused(damage):
    with pytest.raises(PleromaError):
        SchemaChannel.from_json(answer(**damage))


@pytest.mark.parametrize("data", [None, [], "x"])
def test_an_answer_is_an_object(data):
    with pytest.raises(PlanError):
        SchemaChannel.from_json(data)
