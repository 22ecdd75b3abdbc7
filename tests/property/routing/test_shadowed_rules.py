"""Tables without the rules that nothing meets: they forward as before, and every rule that is left is met."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pleroma.index import Dz, DzSet
from pleroma.index.longest_match import filled
from pleroma.routing.flow import Flow, FlowTable, Output, difference
from pleroma.routing.shadowed_rules import ShadowedRules

DEPTH = 4
ATOMS = [Dz(1 << DEPTH | i) for i in range(1 << DEPTH)]
CELLS = [Dz(i) for i in range(1, 1 << DEPTH + 1)]
rules = st.sampled_from([None, *[tuple(map(Output, ports)) for ports in ((1,), (2,), (1, 2))]])
tables = st.lists(rules, min_size=len(CELLS), max_size=len(CELLS)).map(
    lambda found: [Flow(dz, outputs) for dz, outputs in zip(CELLS, found, strict=True) if outputs]
)


@given(tables)
def test_events_go_where_they_went_and_no_rule_is_idle(wanted):
    table, _ = ShadowedRules.of(wanted)
    assert [table.lookup(atom) for atom in ATOMS] == [FlowTable(wanted).lookup(atom) for atom in ATOMS]
    assert {table.lookup(atom) for atom in ATOMS} - {None} == set(table)


@given(st.lists(tables, min_size=2, max_size=5), st.randoms(use_true_random=False))
def test_changed_step_by_step_the_table_is_that_of_the_rules_wanted_in_the_end(states, random):
    table, unmatched = ShadowedRules.of(states[0])
    followed = table.copy()
    for before, after in pairwise(states):
        wanted = difference("R1", FlowTable(before), FlowTable(after))
        random.shuffle(wanted)
        for op in unmatched.change("R1", table, wanted):
            followed.apply(op)
        assert table == followed == ShadowedRules.of(after)[0]


@given(tables)
def test_filled_is_what_the_union_of_longer_ones_covers(wanted):
    cells = [flow.dz for flow in wanted]
    longer = {dz: DzSet(other for other in cells if other != dz and dz.covers(other)) for dz in cells}
    assert filled(cells) == {dz for dz in cells if longer[dz].covers(dz)}
