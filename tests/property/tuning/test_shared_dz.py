"""Rules and deliveries over all dz at once, against the unions of every port and host one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pleroma.index import Dz, DzSet
from pleroma.index.codes import Codes
from pleroma.tuning.network_outcome import _joined, _rules
from pleroma.tuning.outcome import held
from pleroma.tuning.shared_dz import SharedDz

BITS = 6


@st.composite
def cells(draw):
    length = draw(st.integers(0, BITS))
    return Dz(1 << length | draw(st.integers(0, (1 << length) - 1)))


@given(
    st.lists(st.tuples(st.integers(0, 4), st.lists(cells(), min_size=1, max_size=9)), min_size=1, max_size=9),
    st.lists(st.integers(1, 3), min_size=5, max_size=5),
    st.lists(st.integers(0, 2**BITS - 1), max_size=20),
)
def test_one_pass_for_all_ports_is_what_each_port_demands(asked, ports, events):
    owners, covers = [owner for owner, _ in asked], [DzSet(found) for _, found in asked]
    codes = Codes(np.array(events, np.uint64).reshape(-1, 1) << np.uint64(64 - BITS), BITS)
    hosts = _joined(covers, owners)
    shared = SharedDz(covers, owners)
    assert shared.rules(np.array(ports)) == _rules(hosts, np.array(ports))
    assert shared.deliveries(codes) == held(codes, list(hosts.values()))
    assert shared.deliveries(codes) == sum(
        any(dz.covers(Dz(1 << BITS | event)) for dz in host) for host in hosts.values() for event in events
    )
