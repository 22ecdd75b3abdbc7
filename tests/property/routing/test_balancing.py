"""Random networks, registrations and traffic: events on dealt trees arrive once, and load cables as was predicted."""

from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pleroma.index import EVERYTHING, ROOT, Dz, DzSet
from pleroma.routing import Advertise, Family, Router, Subscribe, Topology
from pleroma.routing.balancing import (
    BalancedTrees,
    Sent,
    candidate_trees,
    cells_by_traffic,
    deal,
    joined,
    predict,
    sent_to_subscribers,
)
from pleroma.routing.balancing.balanced import cells_by_volume
from pleroma.switches.simulated.batch_forwarding import forward
from support.networks import any_mesh, codes_of, seeds
from support.routing_oracle import walk

BITS = 6


@dataclass(frozen=True)
class Case:
    topology: Topology
    registrations: tuple[Advertise | Subscribe, ...]
    events: tuple[tuple[Dz, str], ...]
    families: tuple[Family, ...]
    traffic: list[Sent]


def any_dz(rng, longest=BITS):
    length = rng.randint(0, longest)
    return Dz(1 << length | rng.getrandbits(length))


def any_event(rng):
    return Dz(1 << BITS | int(rng.getrandbits(BITS) * rng.random()))


def any_case(rng):
    topology = any_mesh(rng)
    hosts = [host.name for host in topology.hosts]
    registrations = [Advertise(f"a{host}", host, EVERYTHING) for host in hosts]
    registrations += [
        Subscribe(f"s{number}", rng.choice(hosts), DzSet(any_dz(rng) for _ in range(3)))
        for number in range(rng.randint(1, 10))
    ]
    events = [(any_event(rng), rng.choice(hosts)) for _ in range(rng.randint(0, 60))]
    traffic = sent_to_subscribers(events, registrations)
    cells = cells_by_traffic(ROOT, traffic, rng.randint(1, 12))
    families = deal(topology, traffic, cells, max_trees=rng.randint(1, 5)).families
    return Case(topology, tuple(registrations), tuple(events), families, traffic)


@given(seeds)
@settings(deadline=None)
def test_events_on_dealt_trees_reach_all_who_want_them_once_and_load_cables_as_predicted(rng: Random):
    case = any_case(rng)
    router = Router(case.topology, policy=BalancedTrees(), families=case.families)
    router.load(case.registrations)
    names = [host.name for host in case.topology.hosts]
    codes = codes_of([dz for dz, _ in case.events], BITS)
    origin = np.array([names.index(host) for _, host in case.events], np.int64)
    forwarding = forward(case.topology, router.tables, codes, origin)
    assert not forwarding.duplicates.any()
    reached = [{names[h] for h, rows in enumerate(forwarding.delivered) if e in rows} for e in range(len(codes))]
    tree = case.families[0].tree
    for event, hosts in zip(case.traffic, reached, strict=True):
        assert hosts == {host for host in event.receivers if tree.path(event.origin, host)}
    predicted = predict(case.topology, case.traffic, case.families)
    assert (predicted.lines == forwarding.events[: 2 * len(case.topology.links)]).all()


@given(seeds, st.integers(1, 6))
@settings(deadline=None)
def test_with_small_tables_events_on_dealt_trees_still_arrive_once(rng: Random, limit: int):
    case = any_case(rng)
    router = Router(case.topology.with_limit(limit), families=case.families)
    for request in case.registrations:
        router.apply(request)
    for event in case.traffic:
        arrived = [host for host, _ in walk(case.topology, router.tables, event.origin, event.dz)]
        wanting = {host for host in event.receivers if case.families[0].tree.path(event.origin, host)}
        assert len(arrived) == len(set(arrived)), "an event arrives twice"
        assert wanting <= set(arrived)


@given(seeds)
@settings(deadline=None)
def test_a_deal_depends_on_its_arguments_alone(rng: Random):
    case = any_case(rng)
    cells = cells_by_traffic(ROOT, case.traffic, 8)
    assert cells_by_traffic(ROOT, case.traffic[::-1], 8) == cells
    again = replace(case.topology)
    copies = [Sent(Dz(int(dz)), host, frozenset(sorted(wanting)), weight) for dz, host, wanting, weight in case.traffic]
    first, second = deal(case.topology, case.traffic, cells), deal(again, copies, cells)
    assert first.families == second.families
    assert [tree.links for tree in candidate_trees(again)] == [tree.links for tree in candidate_trees(case.topology)]


@given(seeds)
@settings(deadline=None)
def test_a_deal_is_no_worse_than_any_single_tree_and_than_the_one_in_force(rng: Random):
    case = any_case(rng)
    cells = cells_by_traffic(ROOT, case.traffic, 8)
    dealt = deal(case.topology, case.traffic, cells)
    assert (dealt.loads.lines == predict(case.topology, case.traffic, dealt.families).lines).all()
    for tree in candidate_trees(case.topology):
        single = predict(case.topology, case.traffic, [Family(EVERYTHING, tree)])
        assert dealt.loads.busiest <= single.busiest * 1.05
    next_one = deal(case.topology, case.traffic, cells, current=dealt.families)
    assert next_one.loads.busiest <= dealt.loads.busiest * 1.02
    assert set(next_one.families) == set(dealt.families), "cells move although nothing is gained"


@given(seeds, st.integers(1, 20), st.booleans())
def test_the_cells_partition_the_prefix(rng: Random, count: int, by_volume: bool):
    prefix = any_dz(rng, 3)
    dzs = [any_dz(rng) if rng.random() < 0.2 else any_event(rng) for _ in range(rng.randint(0, 40))]
    traffic = [Sent(dz, "h1", frozenset(rng.sample(["h2", "h3"], rng.randint(0, 2))), rng.random()) for dz in dzs]
    cells = cells_by_volume(prefix, count) if by_volume else cells_by_traffic(prefix, traffic, count)
    assert DzSet(cells) == DzSet([prefix])
    assert cells == sorted(cells, key=lambda dz: dz.start)
    assert all(a.end == b.start for a, b in pairwise(cells))
    used = [cell for cell in cells if any(cell.covers(sent.dz) and sent.receivers for sent in traffic)]
    assert len(cells if by_volume else used) <= count
    if not by_volume:
        inside = {sent.dz for sent in traffic if prefix.covers(sent.dz) and sent.receivers}
        apart = not any(a != b and a.covers(b) for a in inside for b in inside)
        assert not apart or len(used) == min(count, len(inside))


def test_a_cell_whose_traffic_has_one_dz_is_not_halved_and_counts():
    def sent(bits, weight):
        return Sent(Dz.parse(bits), "h1", frozenset({"h2"}), weight)

    assert cells_by_traffic(ROOT, [sent("0101", 1.0)], 8) == [ROOT]
    spread = [sent("11", 9.0), *(sent(f"0{number:02b}", 1.0) for number in range(4))]
    assert [str(cell) for cell in cells_by_traffic(ROOT, spread, 3)] == ["00", "01", "1"]


@given(seeds)
def test_cells_carry_no_more_than_the_least_heavy_choice_allows(rng: Random):
    """No cell that could be halved is heavier than two others together were before they were cut."""
    traffic = [Sent(any_event(rng), "h1", frozenset({"h2"})) for _ in range(rng.randint(1, 60))]
    cells = cells_by_traffic(ROOT, traffic, 6)

    def weight(cell):
        return sum(cell.covers(sent.dz) for sent in traffic)

    def is_whole(cell):
        return len({sent.dz for sent in traffic if cell.covers(sent.dz)}) < 2

    for cell in cells:
        for other in cells:
            if cell != ROOT and not is_whole(other):
                assert weight(other) <= weight(cell.parent)


@given(seeds)
@settings(deadline=None)
def test_opened_prefixes_are_dealt_and_everything_keeps_a_family(rng: Random):
    topology = any_mesh(rng).with_limit(rng.choice([None, 1, 16, 100]))
    policy = BalancedTrees(rng.randint(1, 4))
    families = policy.start(topology)
    for _ in range(rng.randint(0, 4)):
        families = policy.opened(families, topology, any_dz(rng, 3))
        region = DzSet(dz for family in families for dz in family.region)
        assert region == EVERYTHING
        assert sum(family.region.atoms for family in families) == EVERYTHING.atoms
        assert joined(families) == list(families)
    some = [family for family in families if rng.random() < 0.5]
    request = Advertise("a", topology.hosts[0].name, DzSet([any_dz(rng)]))
    held = DzSet(dz for family in some for dz in family.region)
    after = policy.advertised(some, topology, request)
    assert DzSet(dz for family in after for dz in family.region) == held | request.region
    assert sum(family.region.atoms for family in after) == DzSet(dz for f in after for dz in f.region).atoms
    for family in some:
        assert any(family.tree == new.tree and new.region.covers(family.region) for new in after)
    assert policy.unadvertised(after, lambda: pytest.fail("nobody asks")) == after
