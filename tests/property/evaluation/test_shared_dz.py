"""Rules and deliveries from arrays of cells, against the unions of every port and host one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pleroma.evaluation.shared_dz import SharedDz
from pleroma.index import Dz, DzSet
from pleroma.index.codes import Codes
from pleroma.index.dz_rows import packed
from pleroma.index.longest_match import filled
from support.held_events import held

BITS = 6
HOSTS = 5


@st.composite
def cells(draw):
    length = draw(st.integers(0, BITS))
    return Dz(1 << length | draw(st.integers(0, (1 << length) - 1)))


def joined(parts, groups):
    found = {}
    for part, group in zip(parts, groups, strict=True):
        found.setdefault(group, set()).update(part)
    return {group: DzSet(each) for group, each in found.items()}


def rules(hosts, ports):
    table = {dz for demand in joined(hosts.values(), [ports[host] for host in hosts]).values() for dz in demand}
    return len(table - filled(table))


def listed(covers, owners):
    """The rows of all covers, and whose they are."""
    return np.concatenate([packed(each) for each in covers]), np.repeat(owners, [len(each) for each in covers])


asking = st.lists(
    st.tuples(st.integers(0, HOSTS - 1), st.lists(cells(), min_size=1, max_size=9)), min_size=1, max_size=9
)
behind = st.lists(st.integers(1, 3), min_size=HOSTS, max_size=HOSTS)


@given(asking, behind, st.lists(st.integers(0, 2**BITS - 1), max_size=20))
def test_one_pass_for_all_ports_is_what_each_port_demands(asked, ports, events):
    owners, covers = np.array([owner for owner, _ in asked]), [DzSet(found) for _, found in asked]
    codes = Codes(np.array(events, np.uint64).reshape(-1, 1) << np.uint64(64 - BITS), BITS)
    hosts = joined(covers, owners.tolist())
    shared = SharedDz.of(*listed(covers, owners))
    assert shared.rules(np.array(ports)) == rules(hosts, ports)
    assert shared.deliveries(codes) == held(codes, list(hosts.values()))
    assert shared.deliveries(codes) == sum(
        any(dz.covers(Dz(1 << BITS | event)) for dz in host) for host in hosts.values() for event in events
    )


@given(asking, behind, st.sets(st.integers(0, HOSTS - 1)))
def test_with_some_hosts_only_it_says_no_more_rules_than_there_are(asked, ports, known):
    rows, owner = listed([DzSet(found) for _, found in asked], [owner for owner, _ in asked])
    every = SharedDz.of(rows, owner).rules(np.array(ports))
    some = SharedDz.of(rows, owner, [host in known for host in range(HOSTS)])
    assert some.rules(np.array(ports)) <= every
