"""Which family has what, and whom the failure of a cable concerns."""

from hypothesis import given
from hypothesis import strategies as st

from pleroma.index import EVERYTHING, NOTHING, Dz, DzSet
from pleroma.routing import build
from pleroma.routing.balancing import BalancedTrees
from pleroma.routing.family import Family, OneTree, left_trees, missing_from
from pleroma.routing.family_spans import FamilySpans
from pleroma.routing.forest import PublisherForest
from pleroma.routing.request import Advertise, Subscribe
from pleroma.routing.router import Router
from pleroma.routing.tree import low_latency_tree

DEPTH = 5
RING = build("ring:4")
FABRIC = build("fat-tree:4")
regions = st.lists(st.integers(1, (1 << DEPTH + 1) - 1).map(Dz), max_size=4).map(DzSet)


def disjoint(drawn):
    taken, kept = NOTHING, []
    for region in drawn:
        kept.append(region - taken)
        taken = taken | region
    return kept


@given(st.lists(regions, max_size=4).map(disjoint), regions.filter(bool))
def test_a_region_is_divided_among_those_who_have_a_part_of_it(held, region):
    expected = [(number, region & each) for number, each in enumerate(held) if region.overlaps(each)]
    assert FamilySpans(held).parts(region) == expected


def test_a_region_that_is_in_one_family_is_handed_on_as_it_is():
    region = DzSet.parse("0010", "0111")
    for held in ([EVERYTHING], [DzSet.parse("1"), DzSet.parse("0")], [DzSet.parse("00", "0110", "0111"), NOTHING]):
        ((_, part),) = FamilySpans(held).parts(region)
        assert part is region


@given(st.lists(regions, max_size=4).map(disjoint), regions)
def test_what_no_family_has_is_missing(held, region):
    families = [Family(each, low_latency_tree(RING)) for each in held]
    assert missing_from(families, region) == region - DzSet(dz for each in held for dz in each)


def test_what_has_another_tree_has_left_its_own():
    here, there = low_latency_tree(RING), low_latency_tree(RING.without([low_latency_tree(RING).links[0]]))
    zero, one = DzSet.parse("0"), DzSet.parse("1")
    before = [Family(zero, here), Family(one, there)]
    assert left_trees(before, before) == NOTHING
    assert left_trees(before, [Family(DzSet.parse("00"), here), Family(DzSet.parse("01"), here), before[1]]) == NOTHING
    assert left_trees(before, [Family(EVERYTHING, here)]) == one
    assert left_trees(before, [Family(DzSet.parse("00"), here)]) == DzSet.parse("01", "1")
    assert left_trees([], before) == NOTHING


def test_on_one_tree_what_no_family_has_joins_the_largest():
    small, large = (Family(DzSet.parse(dz), low_latency_tree(RING)) for dz in ("000", "01"))
    request = Advertise("a", RING.hosts[0].name, DzSet.parse("00", "1"))
    for families in ([small, large], [large, small]):
        after = OneTree().advertised(families, RING, request)
        assert {str(family.region) for family in after} == {"{000}", "{001, 01, 1}"}
        assert OneTree().advertised(after, RING, request) is after


def test_on_one_tree_a_prefix_goes_to_the_family_that_has_most_if_it_has_more_than_half():
    ours, others = low_latency_tree(RING), low_latency_tree(RING.without(links=[RING.links[0]]))
    assert ours != others
    prefix = Dz.parse("000")
    for most, tree in ((DzSet.parse("1", "01"), others), (DzSet.parse("1"), ours)):
        families = [Family(DzSet.parse("000"), ours), Family(most, others)]
        opened = OneTree().opened(families, RING, prefix)
        assert [family.tree for family in opened if family.region.covers(prefix)] == [tree]
        assert next(family for family in opened if family.tree == others).region.covers(Dz.parse("1"))


def test_a_cut_cable_concerns_the_families_on_it_alone():
    router = Router(FABRIC, policy=BalancedTrees())
    router.open_prefix(Dz.parse("0"))
    hosts = [host.name for host in FABRIC.hosts]
    router.load(
        [
            *(Advertise(f"a{n}", host, EVERYTHING) for n, host in enumerate(hosts)),
            *(Subscribe(f"s{n}", host, DzSet.parse(f"{n % 16:04b}", "111")) for n, host in enumerate(hosts)),
        ]
    )
    before = list(router._families)
    links = {link: sum(link in f.tree.links for f in router.families) for link in FABRIC.links}
    link = next(link for link, count in links.items() if 0 < count < len(router.families))
    ops = router.change_topology(FABRIC.without([link]))
    concerned = [family.region for family, _ in before if link in family.tree.links]
    assert ops
    assert all(any(region.covers(op.flow.dz) for region in concerned) for op in ops)
    for (family, demands), (_, now) in zip(before, router._families, strict=True):
        assert (demands is now) == (link not in family.tree.links)
    anew = Router(FABRIC.without([link]), families=router.families)
    anew.load(router.registrations.values())
    assert router.tables == anew.tables
    assert router.change_topology(FABRIC) == []  # the cable is back: no tree leaves the links that it has
    assert router.families[0].tree.topology == FABRIC
    tables = {switch: table.copy() for switch, table in router.tables.items()}
    assert router.change_topology(FABRIC.with_limit(9))  # less room is no cable, but it concerns everybody
    assert router.change_topology(FABRIC)
    assert router.tables == tables


@given(st.lists(regions.filter(bool), max_size=8), st.sampled_from([None, 1, 4, 40]), st.integers(1, 3))
def test_in_a_forest_all_that_is_advertised_has_one_tree_and_keeps_it_however_little_room_there_is(drawn, room, limit):
    topology, policy = RING.with_limit(room), PublisherForest(limit)
    families, advertised = policy.start(topology), NOTHING
    for number, region in enumerate(drawn):
        host = topology.hosts[number % len(topology.hosts)].name
        before, families = families, policy.advertised(families, topology, Advertise(f"a{number}", host, region))
        advertised = advertised | region
        assert DzSet(dz for family in families for dz in family.region) == advertised
        assert sum(family.region.atoms for family in families) == advertised.atoms
        assert left_trees(before, families) == NOTHING
        assert len(families) <= limit
