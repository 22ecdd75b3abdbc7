"""Routers that have a share of the dz each forward, together, every event as one router for all of them does."""

from hypothesis import given
from hypothesis import strategies as st

from pleroma.index import EVERYTHING, NOTHING, Dz, DzSet
from pleroma.routing import Advertise, FlowTable, Router, Subscribe, Unadvertise, Unsubscribe, build
from pleroma.routing.forest import PublisherForest

NETWORK = build("ring:4")
CUT = build("line:4")
DEPTH = 5
dzs = st.integers(1, (1 << DEPTH + 1) - 1).map(Dz)
regions = st.lists(dzs, min_size=1, max_size=3).map(DzSet)
hosts = st.sampled_from([host.name for host in NETWORK.hosts])
points = [Dz(number) for number in range(1 << DEPTH, 1 << DEPTH + 1)]


@st.composite
def shares(draw):
    """The space, divided among some routers in any way."""
    owners = [draw(st.integers(0, 3)) for _ in range(8)]
    parts = [DzSet(Dz(8 + cell) for cell, owner in enumerate(owners) if owner == each) for each in range(4)]
    return [part for part in parts if part]


@st.composite
def requests(draw):
    made, standing = [], {}
    for number in range(draw(st.integers(1, 16))):
        if standing and draw(st.integers(0, 3)) == 0:
            name = draw(st.sampled_from(sorted(standing)))
            made.append((Unadvertise if standing.pop(name) is Advertise else Unsubscribe)(name))
        else:
            kind = draw(st.sampled_from((Advertise, Subscribe, Subscribe)))
            standing[f"r{number}"] = kind
            made.append(kind(f"r{number}", draw(hosts), draw(regions)))
    return made


def ports(tables, point):
    found = [table.lookup(point) for table in tables]
    return {output.port for flow in found if flow is not None for output in flow.outputs}


def assert_same(whole, parts):
    for switch in NETWORK.switches:
        for point in points:
            assert ports([each.tables[switch] for each in parts], point) == ports([whole.tables[switch]], point)


@given(shares(), requests(), st.booleans())
def test_shares_forward_as_the_whole_does_after_every_request(divided, asked, is_forest):
    def router(share):
        return Router(NETWORK, policy=PublisherForest(3) if is_forest else None, share=share)

    whole, parts = router(EVERYTHING), [router(share) for share in divided]
    followed = [{switch: FlowTable() for switch in NETWORK.switches} for _ in parts]
    for request in asked:
        whole.apply(request)
        for part, tables in zip(parts, followed, strict=True):
            for op in part.apply(request):
                tables[op.switch].apply(op)
        assert_same(whole, parts)
    assert followed == [part.tables for part in parts]
    for part, share in zip(parts, divided, strict=True):
        for table in part.tables.values():
            assert all(flow.dz in share or share.covers(flow.dz) for flow in table)


@given(requests())
def test_all_of_it_in_one_share_makes_the_same_tables(asked):
    whole, one = Router(NETWORK), Router(NETWORK, share=DzSet([Dz(2), Dz(3)]))
    for request in asked:
        assert one.apply(request) == whole.apply(request)
    assert one.tables == whole.tables


@given(shares(), requests())
def test_shares_forward_as_the_whole_does_when_loaded_and_when_a_cable_goes(divided, asked):
    standing = {}
    for request in asked:
        if isinstance(request, Advertise | Subscribe):
            standing[request.id] = request
        else:
            del standing[request.id]
    routers = [Router(NETWORK, share=share) for share in (EVERYTHING, *divided)]
    for router in routers:
        router.load(standing.values())
    assert_same(routers[0], routers[1:])
    broken = type(NETWORK)(NETWORK.switches, NETWORK.hosts, NETWORK.links[1:])
    for router in routers:
        router.change_topology(broken)
    assert_same(routers[0], routers[1:])


def test_a_router_with_no_share_knows_all_and_has_no_rule():
    router = Router(CUT, share=NOTHING)
    router.apply(Advertise("a", "h1", EVERYTHING))
    assert router.apply(Subscribe("s", "h4", DzSet([Dz(5)]))) == []
    assert set(router.registrations) == {"a", "s"}
    assert not any(len(table) for table in router.tables.values())
    assert router.apply(Unsubscribe("s")) == []
