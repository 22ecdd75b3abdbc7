import pytest

from pleroma.errors import PleromaError, RoutingError
from pleroma.index import EVERYTHING, Dz, DzSet
from pleroma.routing.family import Family
from pleroma.routing.forest import PublisherForest
from pleroma.routing.request import Advertise, Subscribe, Unadvertise, Unsubscribe
from pleroma.routing.router import Router
from pleroma.routing.topology import Host, Link, Topology
from pleroma.routing.tree import low_latency_tree
from support.routing_oracle import walk


def square(limit=None):
    """Four switches in a ring, one host each."""
    links = (Link("R1", 1, "R2", 2), Link("R2", 1, "R3", 2), Link("R3", 1, "R4", 2), Link("R4", 1, "R1", 2))
    hosts = tuple(Host(f"h{i}", f"R{i}", 3, f"fd00::{i}") for i in range(1, 5))
    return Topology(("R1", "R2", "R3", "R4"), hosts, links).with_limit(limit)


def two_trees():
    ours = low_latency_tree(square())
    return ours, low_latency_tree(square().without([ours.links[0]]))


def made_anew(router):
    """A router that has the same families and registrations from the start."""
    made = Router(router.topology, families=router.families)
    made.load(router.registrations.values())
    return made


def snapshot(router):
    return {s: table.copy() for s, table in router.tables.items()}, dict(router.registrations)


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Subscribe("x", "h9", EVERYTHING), "unknown host 'h9'"),
        (Subscribe("s", "h2", EVERYTHING), "s: the id is in use"),
        (Subscribe("x", "h2", DzSet()), "x: the region is empty"),
        (Subscribe("x", "h2", DzSet([Dz(1 << 24)])), "24 bits is longer than the plan's 23"),
        (Advertise("x", "nobody", EVERYTHING), "unknown host"),
        (Unsubscribe("never"), "never: nothing is subscribed"),
        (Unadvertise("s"), "s: nothing is advertised"),
        (Unsubscribe("a"), "a: nothing is subscribed"),
    ],
)
def test_a_request_that_cannot_be_is_refused_and_changes_nothing(request_, said):
    router = Router(square(), max_length=23)
    router.apply(Advertise("a", "h1", EVERYTHING))
    router.apply(Subscribe("s", "h2", DzSet.parse("01")))
    before = snapshot(router)
    with pytest.raises(PleromaError, match=said):
        router.apply(request_)
    assert snapshot(router) == before


def test_a_dz_may_be_as_long_as_the_plan_is():
    router = Router(square(), max_length=23)
    router.apply(Advertise("a", "h1", EVERYTHING))
    assert router.apply(Subscribe("s", "h2", DzSet([Dz(1 << 23)])))


def test_nobody_gets_its_own_events_back():
    router = Router(square())
    router.apply(Advertise("a", "h1", EVERYTHING))
    router.apply(Subscribe("s", "h1", EVERYTHING))
    assert all(len(table) == 0 for table in router.tables.values())
    router.apply(Advertise("b", "h3", EVERYTHING))
    assert walk(router.topology, router.tables, "h3", Dz.parse("0101")) == [("h1", "fd00::1")]
    assert walk(router.topology, router.tables, "h1", Dz.parse("0101")) == []


def test_two_halves_asked_for_by_different_hosts_are_one_rule_on_the_way():
    router = Router(square())
    router.apply(Advertise("a", "h1", EVERYTHING))
    path = [hop.switch for hop in router.families[0].tree.path("h1", "h3")]
    far = path[1]
    router.apply(Subscribe("left", "h3", DzSet.parse("0")))
    router.apply(Subscribe("right", f"h{far[1]}", DzSet.parse("1")))
    assert [str(flow.dz) for flow in router.tables["R1"]] == ["ε"]


def test_a_covered_subscription_costs_no_operation_upstream():
    router = Router(square())
    router.apply(Advertise("a", "h1", EVERYTHING))
    router.apply(Subscribe("wide", "h2", DzSet.parse("0")))
    assert router.apply(Subscribe("narrow", "h2", DzSet.parse("001"))) == []
    assert router.apply(Unsubscribe("narrow")) == []


def test_what_a_host_asks_for_inside_of_what_it_has_takes_no_cell_until_it_needs_one():
    router, plain = Router(square()), Router(square())
    inner = [DzSet.parse("010"), DzSet.parse("011"), *(DzSet([Dz(1 << 6 | number)]) for number in range(16, 32, 3))]
    cells = []
    for each in (router, plain):
        each.apply(Advertise("a", "h1", EVERYTHING))
    router.apply(Subscribe("wide", "h2", DzSet.parse("01")))
    for number, region in enumerate(inner):
        assert router.apply(Subscribe(f"s{number}", "h2", region)) == []
        plain.apply(Subscribe(f"s{number}", "h2", region))
        cells.append(len(list(router._families[0][1]._cells())))
    assert len(set(cells)) == 1
    router.apply(Unsubscribe("wide"))
    assert router.tables == plain.tables
    for number in range(len(inner)):
        router.apply(Unsubscribe(f"s{number}"))
    assert all(len(table) == 0 for table in router.tables.values())


@pytest.mark.parametrize("kind", [Advertise, Subscribe])
def test_a_cell_that_is_full_by_its_halves_and_asked_for_as_a_whole_stays_full_without_them(kind):
    router, other, gone = Router(square()), Router(square()), Unadvertise if kind is Advertise else Unsubscribe
    facing = (Subscribe if kind is Advertise else Advertise)("other", "h3", EVERYTHING)
    whole = kind("whole", "h1", DzSet.parse("01"))
    for request in (facing, kind("low", "h1", DzSet.parse("010")), kind("high", "h1", DzSet.parse("011")), whole):
        router.apply(request)
    for request in (facing, whole):
        other.apply(request)
    assert router.tables == other.tables
    for half in ("low", "high"):
        router.apply(gone(half))
        assert router.tables == other.tables


def test_after_families_were_joined_a_request_changes_what_it_is_about_and_nothing_else():
    ours, others = two_trees()
    zero, one = DzSet.parse("0"), DzSet.parse("1")
    router = Router(square(), families=[Family(zero, ours), Family(one, others)])
    for number in range(1, 5):
        router.apply(Advertise(f"a{number}", f"h{number}", EVERYTHING))
        router.apply(Subscribe(f"s{number}", f"h{number}", DzSet.parse(f"0{number:03b}", f"1{number:03b}")))
    assert router.adopt([Family(EVERYTHING, ours)])
    assert router.apply(Subscribe("again", "h1", DzSet.parse("0001"))) == []
    ops = router.apply(Subscribe("new", "h1", DzSet.parse("0111")))
    assert ops
    assert {str(op.flow.dz) for op in ops} == {"0111"}
    assert router.tables == made_anew(router).tables


def test_a_host_that_comes_later_brings_a_tree_for_what_it_advertised_before():
    router = Router(square().without(switches=["R4"]), policy=PublisherForest())
    router.expect("h4")
    router.apply(Advertise("a", "h4", DzSet.parse("01")))
    router.apply(Subscribe("s", "h2", EVERYTHING))
    assert not any(family.region for family in router.families)
    router.change_topology(square())
    assert [str(family.region) for family in router.families if family.region] == ["{01}"]
    assert walk(router.topology, router.tables, "h4", Dz.parse("0101")) == [("h2", "fd00::2")]


def test_a_family_that_takes_cells_over_has_their_rules():
    ours, others = two_trees()
    for tree in (ours, others):
        router = Router(square(), families=[Family(EVERYTHING, ours)])
        router.apply(Advertise("a", "h1", EVERYTHING))
        for number in range(8):
            router.apply(Subscribe(f"s{number}", f"h{number % 3 + 2}", DzSet([Dz(1 << 3 | number)])))
        router.adopt([Family(DzSet.parse("0"), ours), Family(DzSet.parse("1"), tree)])
        assert router.tables == made_anew(router).tables


def test_a_coarse_rule_makes_way_for_a_family_that_comes():
    ours, others = two_trees()
    around, between = DzSet.parse("00", "11"), DzSet.parse("01")
    router = Router(square(1), families=[Family(around, ours)])
    router.apply(Advertise("a", "h1", around))
    router.apply(Subscribe("low", "h2", DzSet.parse("00")))
    router.apply(Subscribe("high", "h2", DzSet.parse("11")))
    assert [str(flow.dz) for flow in router.tables["R1"]] == ["ε"]
    router.adopt([Family(around, ours), Family(between, others)])
    assert sorted(str(flow.dz) for flow in router.tables["R1"]) == ["00", "11"]
    assert router.tables == made_anew(router).tables


def test_what_is_held_for_others_has_a_tree_of_its_own_until_it_is_let_go():
    router = Router(square(), policy=PublisherForest())
    held = Advertise("a", "h2", DzSet.parse("01"))
    router.hold([held])
    assert [str(family.region) for family in router.families] == ["{01}"]
    router.let_go(["a"])
    assert not any(family.region for family in router.families)


def test_a_cut_link_reroutes_and_a_useless_one_changes_nothing():
    router = Router(square())
    router.apply(Advertise("a", "h1", EVERYTHING))
    router.apply(Subscribe("s", "h3", EVERYTHING))
    tree = router.families[0].tree
    spare = next(link for link in router.topology.links if link not in tree.links)
    assert router.change_topology(square().without([spare])) == []
    router.change_topology(square())
    used = next(link for link in tree.links if "R1" in (link.a, link.b))
    assert router.change_topology(square().without([used]))
    assert walk(router.topology, router.tables, "h1", Dz.parse("1")) == [("h3", "fd00::3")]


def test_a_host_that_returns_finds_its_registrations():
    router = Router(square())
    router.apply(Advertise("a", "h1", EVERYTHING))
    router.apply(Subscribe("s", "h3", EVERYTHING))
    router.change_topology(square().without(switches=["R3"]))
    assert walk(router.topology, router.tables, "h1", Dz.parse("1")) == []
    router.change_topology(square())
    assert walk(router.topology, router.tables, "h1", Dz.parse("1")) == [("h3", "fd00::3")]
    router.change_topology(square().without(switches=["R3"]))
    router.apply(Unsubscribe("s"))
    assert router.change_topology(square()) == []


class TestForest:
    """Bhowmik 2013, 4.2.1, figure 4.2: {000} makes a tree, {0000} joins it, {00} joins it and makes one for {001}."""

    def test_create_join_and_split(self):
        router = Router(square(), policy=PublisherForest())
        router.apply(Advertise("P0", "h1", DzSet.parse("000")))
        assert [f.region for f in router.families] == [DzSet.parse("000")]
        router.apply(Advertise("P1", "h2", DzSet.parse("0000")))
        assert [f.region for f in router.families] == [DzSet.parse("000")]
        router.apply(Advertise("P2", "h3", DzSet.parse("00")))
        assert [f.region for f in router.families] == [DzSet.parse("000"), DzSet.parse("001")]
        router.apply(Advertise("P3", "h4", DzSet.parse("100")))
        assert [f.region for f in router.families][2] == DzSet.parse("100")

    def test_a_tree_is_rooted_at_its_first_publisher(self):
        router = Router(square(), policy=PublisherForest())
        router.apply(Advertise("P0", "h1", DzSet.parse("0")))
        router.apply(Advertise("P2", "h3", DzSet.parse("1")))
        first, second = (f.tree for f in router.families)
        assert first.links != second.links
        assert {len(first.path("h1", h)) for h in ("h2", "h4")} == {2}
        assert {len(second.path("h3", h)) for h in ("h2", "h4")} == {2}

    def test_a_family_goes_with_its_last_advertisement(self):
        router = Router(square(), policy=PublisherForest())
        router.apply(Advertise("P0", "h1", DzSet.parse("0")))
        router.apply(Advertise("P1", "h2", DzSet.parse("00")))
        router.apply(Unadvertise("P0"))
        assert len(router.families) == 1
        router.apply(Unadvertise("P1"))
        assert router.families == ()

    def test_with_enough_trees_newcomers_join_one_and_everybody_is_served(self):
        router = Router(square(), policy=PublisherForest(limit=2))
        shadow = {s: t.copy() for s, t in router.tables.items()}
        steps = [Subscribe(f"s{i}", f"h{i}", EVERYTHING) for i in (2, 4)]
        steps += [Advertise(f"a{k}", f"h{k % 4 + 1}", DzSet([Dz(8 + k)])) for k in range(8)]
        for step in steps:
            for op in router.apply(step):
                shadow[op.switch].apply(op)
            assert len(router.families) <= 2
        assert shadow == router.tables
        for k in range(8):
            reached = walk(router.topology, router.tables, f"h{k % 4 + 1}", Dz(8 + k << 3))
            assert sorted(h for h, _ in reached) == sorted({"h2", "h4"} - {f"h{k % 4 + 1}"})

    def test_a_forest_needs_a_tree(self):
        with pytest.raises(RoutingError, match="at least one tree"):
            PublisherForest(0)


def test_a_limited_switch_keeps_its_limit_and_refines_when_space_is_freed():
    router = Router(square(limit=3))
    router.apply(Advertise("a", "h1", EVERYTHING))
    for i, dz in enumerate(["0000", "0011", "0101", "1001", "1110"]):
        router.apply(Subscribe(f"s{i}", "h2", DzSet.parse(dz)))
    assert max(len(table) for table in router.tables.values()) == 3
    assert router.coarsened["R1"].wanted == 5
    assert router.coarsened["R1"].extra > 0
    for dz in ("0000", "0011", "0101", "1001", "1110"):
        assert walk(router.topology, router.tables, "h1", Dz.parse(dz)) == [("h2", "fd00::2")]
    router.apply(Unsubscribe("s0"))
    router.apply(Unsubscribe("s1"))
    assert router.coarsened == {}
    assert {str(flow.dz) for flow in router.tables["R1"]} == {"0101", "1001", "1110"}
