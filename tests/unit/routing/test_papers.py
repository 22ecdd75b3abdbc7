"""The papers' own examples, rule by rule."""

from typing import ClassVar

import pytest

from pleroma.index import IPV4, DzSet
from pleroma.routing.cases import Case, cases
from pleroma.routing.request import Advertise, Subscribe, Unadvertise, Unsubscribe
from pleroma.routing.router import Router
from pleroma.routing.topology import Host, Link, Topology


def network(hosts, links):
    """Hosts as (name, switch, port), links as (switch, port, switch, port)."""
    switches = tuple(dict.fromkeys([s for _, s, _ in hosts] + [s for a, _, b, _ in links for s in (a, b)]))
    return Topology(
        tuple(sorted(switches)),
        tuple(Host(name, switch, port, f"fd00::{i + 1}") for i, (name, switch, port) in enumerate(hosts)),
        tuple(Link(*link) for link in links),
    )


def rules(router, switch):
    return {str(flow.dz): list(flow.ports) for flow in router.tables[switch]}


class TestTheArticlesFigures3To5:
    """Bhowmik et al. 2017: p1 behind R1; s1 {1} behind R2, s2 {100} behind R5, s3 {10} behind R6; R3 crosses."""

    @pytest.fixture
    def router(self):
        topology = network(
            hosts=[("p1", "R1", 1), ("s1", "R2", 2), ("s2", "R5", 2), ("s3", "R6", 2)],
            links=[("R1", 2, "R3", 1), ("R3", 2, "R2", 1), ("R3", 3, "R4", 1), ("R4", 2, "R5", 1), ("R5", 3, "R6", 1)],
        )
        router = Router(topology)
        router.apply(Advertise("p1", "p1", DzSet.parse("1")))
        router.apply(Subscribe("s1", "s1", DzSet.parse("1")))
        router.apply(Subscribe("s2", "s2", DzSet.parse("100")))
        return router

    FIGURE_3: ClassVar = {
        "R1": {"1": [2]},
        "R2": {"1": [2]},
        "R3": {"1": [2], "100": [2, 3]},
        "R4": {"100": [2]},
        "R5": {"100": [2]},
        "R6": {},
    }
    FIGURE_4: ClassVar = FIGURE_3 | {
        "R3": {"1": [2], "10": [2, 3]},
        "R4": {"10": [2]},
        "R5": {"10": [3], "100": [2, 3]},
        "R6": {"10": [2]},
    }

    def test_figure_3(self, router):
        assert {s: rules(router, s) for s in router.tables} == self.FIGURE_3

    def test_figure_4_s3_arrives_and_shows_all_five_cases(self, router):
        before = {s: table.copy() for s, table in router.tables.items()}
        ops = router.apply(Subscribe("s3", "s3", DzSet.parse("10")))
        assert {s: rules(router, s) for s in router.tables} == self.FIGURE_4
        seen = {s: cases(before[s], [op for op in ops if op.switch == s]) for s in router.tables}
        assert seen["R6"] == {Case.NEW}
        assert seen["R1"] == {Case.COVERED}
        assert seen["R3"] == {Case.COVERS, Case.PARTLY_COVERED}
        assert seen["R4"] == {Case.COVERS, Case.NEW}
        assert seen["R5"] == {Case.NEW, Case.PARTLY_COVERS}

    def test_figure_5_s3_leaves_and_the_shared_path_is_downgraded(self, router):
        router.apply(Subscribe("s3", "s3", DzSet.parse("10")))
        ops = router.apply(Unsubscribe("s3"))
        assert {s: rules(router, s) for s in router.tables} == self.FIGURE_3
        assert {str(op) for op in ops if op.switch == "R6"} == {"R6: delete 10 -> 2"}
        assert {str(op) for op in ops if op.switch == "R5"} == {"R5: modify 100 -> 2", "R5: delete 10 -> 3"}

    def test_priority_follows_length_and_the_last_switch_rewrites(self, router):
        flow = router.tables["R3"].lookup(DzSet.parse("1001").members[0])
        assert (str(flow.dz), flow.priority, flow.ports) == ("100", 3, (2, 3))
        assert [output.rewrite for output in flow.outputs] == [None, None]
        assert [output.rewrite for flow in router.tables["R5"] for output in flow.outputs] == ["fd00::3"]


class TestTheMastersThesisTables41To44:
    """Bhowmik 2013, 4.2: P0 on port 1 of R0; R1 with S0 (and later P1) on port 2, R2 with S1 and S2 on port 3."""

    @pytest.fixture
    def router(self):
        topology = network(
            hosts=[("P0", "R0", 1), ("S0", "R1", 2), ("P1", "R1", 3), ("S1", "R2", 2), ("S2", "R2", 3)],
            links=[("R0", 2, "R1", 1), ("R0", 3, "R2", 1)],
        )
        router = Router(topology, max_length=IPV4.bits)
        router.apply(Advertise("P0", "P0", DzSet.parse("000")))
        router.apply(Subscribe("S0", "S0", DzSet.parse("00")))
        router.apply(Subscribe("S1", "S1", DzSet.parse("0000")))
        return router

    def prefixes(self, router):
        return {str(IPV4.prefix(flow.dz)): list(flow.ports) for flow in router.tables["R0"]}

    def test_table_4_1_two_subscribers_share_the_longer_prefix(self, router):
        assert self.prefixes(router) == {"225.128.0.0/13": [2, 3], "225.128.0.0/12": [2]}

    def test_table_4_2_a_wider_subscription_upgrades_the_flow(self, router):
        router.apply(Subscribe("S2", "S2", DzSet.parse("000")))
        assert self.prefixes(router) == {"225.128.0.0/12": [2, 3]}

    def test_table_4_3_departures_downgrade_it(self, router):
        router.apply(Subscribe("S2", "S2", DzSet.parse("000")))
        router.apply(Unsubscribe("S0"))
        assert self.prefixes(router) == {"225.128.0.0/12": [3]}
        router.apply(Unsubscribe("S2"))
        assert self.prefixes(router) == {"225.128.0.0/13": [3]}

    def test_table_4_4_an_unadvertisement_leaves_the_other_publishers_paths(self, router):
        router.apply(Subscribe("S2", "S2", DzSet.parse("000")))
        router.apply(Advertise("P1", "P1", DzSet.parse("0000")))
        router.apply(Unadvertise("P0"))
        assert self.prefixes(router) == {"225.128.0.0/13": [3]}
