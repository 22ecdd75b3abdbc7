"""Many registrations at once: exchanged, or loaded, they make the tables that they make one by one."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.errors import DzError
from pleroma.index import Dz, DzSet
from pleroma.index.dz import MAX_LENGTH
from pleroma.routing import Advertise, FlowTable, PublisherForest, Router, Subscribe, Unadvertise, Unsubscribe, build
from pleroma.routing.outermost import outermost

NETWORK = build("ring:4")
DEPTH = 5
dzs = st.integers(1, (1 << DEPTH + 1) - 1).map(Dz)
regions = st.lists(dzs, min_size=1, max_size=3).map(DzSet)
hosts = st.sampled_from([host.name for host in NETWORK.hosts])


@st.composite
def registrations(draw, least=0, most=14):
    count = draw(st.integers(least, most))
    kinds = st.sampled_from((Advertise, Subscribe, Subscribe))
    return [draw(kinds)(f"r{i}", draw(hosts), draw(regions)) for i in range(count)]


def one_by_one(requests):
    router = Router(NETWORK)
    for request in requests:
        router.apply(request)
    return router


@given(registrations(), st.data())
def test_an_exchange_leads_to_the_tables_of_what_is_then_registered(before, data):
    router = Router(NETWORK)
    router.load(before) if data.draw(st.booleans()) else [router.apply(request) for request in before]
    network = {switch: table.copy() for switch, table in router.tables.items()}
    gone = [r for r in before if data.draw(st.booleans())]
    moved = [type(r)(r.id, r.host, data.draw(regions)) for r in gone if data.draw(st.booleans())]
    new = [type(r)(f"n{r.id}", r.host, r.region) for r in data.draw(registrations(most=4))]
    for op in router.exchange([r.id for r in gone], [*moved, *new]):
        network[op.switch].apply(op)
    expected = [r for r in before if r not in gone] + moved + new
    assert {r.id: r for r in expected} == router.registrations
    assert network == router.tables == one_by_one(expected).tables
    for request in expected:  # and all can be withdrawn again
        withdrawn = Unadvertise if isinstance(request, Advertise) else Unsubscribe
        for op in router.apply(withdrawn(request.id)):
            network[op.switch].apply(op)
    assert network == router.tables == {switch: FlowTable() for switch in NETWORK.switches}


@given(registrations(least=3), st.data())
def test_with_many_trees_too_the_network_follows(before, data):
    router = Router(NETWORK, policy=PublisherForest(3))
    network = {switch: FlowTable() for switch in NETWORK.switches}
    for op in router.load(before):
        network[op.switch].apply(op)
    gone = [r for r in before if data.draw(st.booleans())]
    moved = [type(r)(r.id, r.host, data.draw(regions)) for r in gone if data.draw(st.booleans())]
    for op in router.exchange([r.id for r in gone], moved):
        network[op.switch].apply(op)
    assert network == router.tables


@st.composite
def any_dz(draw):
    length = draw(st.integers(0, 6) | st.integers(0, MAX_LENGTH))
    ends = st.sampled_from((0, (1 << length) - 1)) | st.integers(0, (1 << length) - 1)
    return Dz(1 << length | draw(ends))


@given(st.lists(any_dz() | dzs, max_size=40))
def test_the_outermost_are_those_that_no_other_covers(given_):
    found = list(outermost(b"".join(DzSet([dz]).pack() for dz in given_)))
    counts = Counter(given_)
    outer = {dz for dz in counts if not any(other != dz and other.covers(dz) for other in counts)}
    assert [each.dz for each in found] == sorted(outer, key=lambda dz: dz.start)
    for each in found:
        assert each.times == counts[each.dz]
        inside = Counter({dz: n for dz, n in counts.items() if dz != each.dz and each.dz.covers(dz)})
        assert Counter(DzSet.unpack(each.inside)) == inside


@given(st.lists(any_dz(), max_size=12), st.lists(any_dz(), max_size=12))
def test_a_packed_region_is_the_region(members, others):
    region, other = DzSet(members), DzSet(others)
    packed = DzSet.unpack(region.pack())
    assert packed == region
    assert hash(packed) == hash(region)
    assert (packed.members, len(packed), bool(packed)) == (region.members, len(region), bool(region))
    assert (packed.longest, packed.atoms, packed.pack()) == (region.longest, region.atoms, region.pack())
    assert (packed & other, packed | other, other - packed) == (region & other, region | other, other - region)
    assert packed.covers(other) == region.covers(other)


@given(st.lists(dzs, max_size=12), dzs)
def test_a_region_under_a_prefix_is_its_members_behind_those_bits(members, prefix):
    region = DzSet(members)
    inside = region.under(prefix)
    assert inside == DzSet(prefix.then(dz) for dz in region)
    assert inside.members == DzSet(inside).members
    before = inside.members, hash(inside)
    inside.slim()
    assert (inside.members, hash(inside)) == before


def test_a_region_that_does_not_fit_under_a_prefix_is_refused():
    with pytest.raises(DzError):
        DzSet([Dz(1 << MAX_LENGTH)]).under(Dz(2))
