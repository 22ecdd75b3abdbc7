"""Which switches serve a registration: those between its host and the hosts that it has events in common with."""

from hypothesis import given
from hypothesis import strategies as st

from pleroma.index import Dz, DzSet
from pleroma.routing import Advertise, PublisherForest, Router, Subscribe, build, demand
from pleroma.routing.request import Unadvertise, Unsubscribe

NETWORKS = [build("ring:4"), build("testbed"), build("line:3")]
DEPTH = 5
dzs = st.integers(1, (1 << DEPTH + 1) - 1).map(Dz)
regions = st.lists(dzs, min_size=1, max_size=3).map(DzSet)
kinds = st.sampled_from((Advertise, Subscribe))


def between(router, request):
    """By the definition: the paths to all whose registrations of the other kind overlap, family by family."""
    other = Subscribe if isinstance(request, Advertise) else Advertise
    return {
        hop.switch
        for family in router.families
        for each in router.registrations.values()
        if isinstance(each, other) and each.region & request.region & family.region
        for hop in family.tree.path(each.host, request.host)
    }


@given(st.data(), st.sampled_from(NETWORKS), st.sampled_from([None, PublisherForest]))
def test_the_switches_that_serve_are_those_between_hosts_with_events_in_common(data, network, policy):
    router = Router(network, policy=policy() if policy else None)
    hosts = st.sampled_from([host.name for host in network.hosts])
    for number in range(data.draw(st.integers(0, 10))):
        request = data.draw(kinds)(f"r{number}", data.draw(hosts), data.draw(regions))
        router.apply(request)
        if data.draw(st.integers(0, 3)) == 0:
            gone = data.draw(st.sampled_from(list(router.registrations.values())))
            router.apply((Unadvertise if isinstance(gone, Advertise) else Unsubscribe)(gone.id))
    if network.links and data.draw(st.booleans()):
        router.change_topology(network.without(data.draw(st.sets(st.sampled_from(network.links), max_size=2))))
    asked = data.draw(kinds)("asked", data.draw(hosts), data.draw(regions))
    among = data.draw(st.sets(st.sampled_from(network.switches)))
    assert router.serving(asked, network.switches) == between(router, asked)
    assert router.serving(asked, among) == between(router, asked) & among


def test_a_host_that_is_away_is_served_by_nobody():
    network = NETWORKS[0]
    router = Router(network)
    everything = DzSet([Dz(1)])
    router.apply(Advertise("a", network.hosts[0].name, everything))
    router.expect("later")
    assert router.serving(Subscribe("s", "later", everything), network.switches) == set()
    assert router.serving(Subscribe("s", network.hosts[1].name, everything), network.switches)
    assert router.serving(Subscribe("s", network.hosts[1].name, everything), ["no switch"]) == set()


def test_among_very_many_cells_whoever_is_not_ruled_out_counts_but_none_without_registrations_behind(monkeypatch):
    line = build("line:4")
    router = Router(line)
    near, middle, far, last = (host.name for host in line.hosts)
    for number in range(8):
        router.apply(Subscribe(f"s{number}", near, DzSet([Dz(1 << 4 | number)])))
    router.apply(Subscribe("far", far, DzSet([Dz.parse("1111")])))
    router.apply(Subscribe("gone", last, DzSet([Dz.parse("0")])))
    router.apply(Unsubscribe("gone"))
    asked = Advertise("asked", middle, DzSet([Dz.parse("0")]))
    assert router.serving(asked, line.switches) == {"R1", "R2"} == between(router, asked)
    monkeypatch.setattr(demand, "MAX_SEARCHED_CELLS", 3)
    assert router.serving(asked, ["R1"]) == {"R1"}
    assert router.serving(asked, ["R3", "R4"]) == {"R3"}  # which leads to `far`, who might want some of it
    assert router.serving(asked, ["R4"]) == set()
