"""Events in the order of their dz: whichever region, those inside are the ones that a look at each one finds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pleroma.evaluation.ordered_codes import OrderedCodes
from pleroma.index import Dz, DzSet
from pleroma.index.codes import Codes

texts = st.text("01", max_size=20)


@given(
    bits=st.sampled_from([0, 1, 5, 20, 63, 64, 65, 100]),
    prefix=texts.filter(lambda each: len(each) <= 12),
    numbers=st.lists(st.integers(0, 2**100 - 1), max_size=20),
    members=st.lists(texts, max_size=12),
    whole=st.booleans(),
)
def test_the_events_of_a_region_are_those_whose_dz_it_covers(bits, prefix, numbers, members, whole):
    prefix, dzs = Dz.parse(prefix), [Dz(1 << bits | number % (1 << bits)) for number in numbers]
    count = len(dzs)
    region = DzSet([Dz.parse(each) for each in members] + [prefix.then(each) for each in dzs[:3]])
    region = DzSet([Dz.parse("")]) if whole else region
    words = [[(dz.start >> 48) & (2**64 - 1), (dz.start & (2**48 - 1)) << 16] for dz in dzs]
    columns = 1 if bits <= 64 else 2
    codes = Codes(np.array(words, np.uint64).reshape(-1, 2)[:, :columns], bits)
    found = OrderedCodes(codes, count, prefix).within(region)
    assert found.tolist() == [region.covers(prefix.then(dz)) for dz in dzs]


def test_an_event_that_is_sent_twice_counts_once():
    codes = Codes(np.array([[0], [1 << 63], [1 << 62]], np.uint64), 2, np.array([0, 0, 1]))
    ordered = OrderedCodes(codes, 3)
    assert ordered.within(DzSet.parse("")).tolist() == [True, True, False]
    assert ordered.within(DzSet.parse("1")).tolist() == [True, False, False]
    assert ordered.within(DzSet.parse("01")).tolist() == [False, True, False]
