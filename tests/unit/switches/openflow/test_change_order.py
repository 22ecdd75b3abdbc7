"""In which order and in which bundles a switch's rules change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.index import IPV4, IPV6, Dz
from pleroma.routing import Change, DetourOp, Flow, Output
from pleroma.switches.openflow.change_order import MAX_BUNDLE_CHANGES, bundles, rule_changes
from pleroma.switches.openflow.tables import RuleLayout

LAYOUT = RuleLayout(IPV6)
ADD, MODIFY, DELETE = Change.ADD, Change.MODIFY, Change.DELETE
cells = st.text("01", max_size=6).map(Dz.parse)
flows = st.builds(lambda dz, port: Flow(dz, (Output(port),)), cells, st.integers(1, 3))
rules = st.dictionaries(cells, flows).map(lambda made: [LAYOUT.forwarding(flow) for flow in made.values()])


def rule(bits, port=1):
    return LAYOUT.forwarding(Flow(Dz.parse(bits), (Output(port),)))


def detour(bits, port=5, layout=LAYOUT):
    return layout.change(DetourOp("R1", ADD, Flow(Dz.parse(bits), (Output(port),))))[1]


def table(*made):
    return {each.key: each for each in made}


def sent(known, wanted, **options):
    """The bundles between two tables, each as pairs of a change and the cell that it is about."""
    parts = bundles(known, wanted, known.keys() | wanted.keys(), **options)
    return [[(change, str(IPV6.dz(rule.match.destination))) for change, rule in part] for part in parts]


OLD, NEW = [rule("00"), rule("01")], [rule("000"), rule("011"), rule("010")]


def test_below_a_detour_that_stays_all_that_goes_is_deleted_before_anything_comes():
    known, wanted = table(detour("0"), *OLD), table(detour("0"), *NEW)
    assert [[change for change, _ in part] for part in sent(known, wanted, size=2)] == [[DELETE] * 2, [ADD] * 2, [ADD]]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], []),
        ([], [detour("0")]),
        ([detour("0")], []),
        ([detour("00")], [detour("01")]),
        ([detour("1")] * 2, [detour("1")]),
    ],
    ids=["none", "comes", "goes", "another", "elsewhere"],
)
def test_only_a_detour_that_is_there_and_stays_and_covers_hides_rules(before, after):
    known, wanted = table(*before, *OLD), table(*after, *NEW)
    changes = [each for part in sent(known, wanted, size=1) for each in part]
    assert [change for change, _ in changes] == sorted((change for change, _ in changes), key=list(Change).index)


def test_a_detour_whose_outputs_change_hides_rules_all_the_same():
    known, wanted = table(detour("0", 5), *OLD), table(detour("0", 6), *NEW)
    changes = [change for part in sent(known, wanted, size=1) for change, _ in part]
    assert changes == [DELETE, DELETE, MODIFY, ADD, ADD, ADD]


def test_a_detour_of_other_addresses_hides_nothing():
    strange = detour("", layout=RuleLayout(IPV4))
    changes = bundles(table(strange, *OLD), table(strange, *NEW), table(*OLD, *NEW), size=1)
    assert [change for ((change, _),) in changes] == [ADD] * 3 + [DELETE] * 2


def test_a_rule_around_a_detour_is_not_hidden_and_changes_between_the_hidden_ones():
    known, wanted = table(detour("00"), rule("0"), rule("001")), table(detour("00"), rule("0", 2), rule("000"))
    assert sent(known, wanted, size=1) == [[(DELETE, "001")], [(MODIFY, "0")], [(ADD, "000")]]


def test_what_events_are_let_in_by_is_not_hidden():
    old, new = LAYOUT.admitting(1, Dz.parse("00")), LAYOUT.admitting(1, Dz.parse("01"))
    known, wanted = table(detour("0"), old, rule("00")), table(detour("0"), new, rule("01"))
    changes = [each for part in bundles(known, wanted, known.keys() | wanted.keys(), size=1) for each in part]
    assert changes == [(DELETE, rule("00")), (ADD, new), (DELETE, old), (ADD, rule("01"))]


def test_where_room_is_tight_what_events_meet_changes_in_one_bundle_and_the_rest_in_several():
    known, wanted = table(detour("0"), *OLD, rule("10"), rule("11")), table(detour("0"), *NEW, rule("110"), rule("111"))
    shape = [[change for change, _ in part] for part in sent(known, wanted, size=2, tight=True)]
    assert shape == [[DELETE] * 2, [DELETE, DELETE, ADD, ADD], [ADD] * 2, [ADD]]


def test_what_fits_into_one_bundle_is_one_bundle():
    known, wanted = table(detour("0"), *OLD), table(detour("0"), *NEW)
    for tight in (False, True):
        ((*changes,),) = sent(known, wanted, size=5, tight=tight)
        assert [change for change, _ in changes] == [DELETE] * 2 + [ADD] * 3
    assert sent(known, known) == []


def test_many_changes_go_in_bundles_of_a_thousand():
    many = [rule(f"{number:012b}") for number in range(2 * MAX_BUNDLE_CHANGES + 1)]
    assert [len(part) for part in sent({}, table(*many))] == [1000, 1000, 1]


@given(rules, rules)
def test_the_difference_leads_from_one_table_to_the_other_in_safe_order(before, after):
    known, wanted = table(*before), table(*after)
    changes = rule_changes(known, wanted, known.keys() | wanted.keys())
    now = dict(known)
    for change, each in changes:
        assert (each.key in now) == (change is not ADD)
        if change is DELETE:
            del now[each.key]
        else:
            assert now.get(each.key) != each
            now[each.key] = each
    assert now == wanted
    names = [change for change, _ in changes]
    assert names == sorted(names, key=list(Change).index)
    for name, sign in ((ADD, -1), (DELETE, 1)):
        lengths = [sign * each.priority for change, each in changes if change == name]
        assert lengths == sorted(lengths)
