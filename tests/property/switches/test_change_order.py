"""A switch between two tables, against a plain lookup by priority: nothing is lost, and how much room it takes."""

from itertools import product

from hypothesis import event, given
from hypothesis import strategies as st

from pleroma.index import IPV6, Dz
from pleroma.routing import Change, DetourOp, Flow, Output
from pleroma.switches.openflow.change_order import bundles, rule_changes
from pleroma.switches.openflow.tables import ADMISSION, FORWARDING, RuleLayout

LAYOUT = RuleLayout(IPV6)
HOST_PORT, LINK_PORT = 8, 9
BITS = 5
EVENTS = [Dz.parse("".join(bits)) for bits in product("01", repeat=BITS)]
cells = st.text("01", max_size=BITS).map(Dz.parse)
outputs = st.sets(st.integers(1, 4)).map(lambda ports: tuple(map(Output, sorted(ports))))
sizes = st.integers(1, 12)


def detour(flow):
    return LAYOUT.change(DetourOp("R1", Change.ADD, flow))[1]


def is_detour(rule):
    return rule.table == FORWARDING and rule.priority >= 1000


def cell_of(rule):
    return IPV6.dz(rule.match.destination)


def by_key(rules):
    return {rule.key: rule for rule in rules}


@st.composite
def tables(draw, below=None):
    """Rules, detours and admissions of a switch; with `below`, its only detours are there, and all rules lie below."""
    if below is None:
        admitted = [LAYOUT.admitting(HOST_PORT, dz) for dz in draw(st.sets(cells, max_size=4))]
        wheres, detoured = draw(st.sets(cells, max_size=24)), draw(st.sets(cells, max_size=3))
    else:
        inside = [dz for length in range(BITS + 1) for dz in _cells(length) if any(d.covers(dz) for d in below)]
        admitted, wheres, detoured = [], draw(st.sets(st.sampled_from(inside))), below
    rules = [LAYOUT.forwarding(Flow(dz, draw(outputs))) for dz in sorted(wheres)]
    return by_key([*rules, *admitted, *(detour(Flow(dz, draw(outputs))) for dz in sorted(detoured))])


def _cells(length):
    return [Dz.parse("".join(bits)) for bits in product("01", repeat=length)]


def goes(table, port, dz):
    """Where a switch sends an event that comes in at a port, by looking at all of its rules."""

    def first(number):
        found = [rule for rule in table.values() if rule.table == number and cell_of(rule).covers(dz)]
        return max(found, key=lambda rule: rule.priority, default=None)

    if port != LINK_PORT and first(ADMISSION) is None:
        return set()
    rule = first(FORWARDING)
    return set() if rule is None else set(rule.sends)


def changed(table, change, rule):
    assert (rule.key in table) == (change is not Change.ADD)
    assert table.get(rule.key) != rule or change is Change.DELETE
    if change is Change.DELETE:
        assert table.pop(rule.key) == rule
    else:
        table[rule.key] = rule


def is_lost(before, now, after):
    ways = product((HOST_PORT, LINK_PORT), EVENTS)
    return [way for way in ways if not goes(before, *way) & goes(after, *way) <= goes(now, *way)]


def most_rules(known, parts):
    """The most rules at any moment, with the changes of each bundle carried out in the order in which they are sent."""
    table, most = dict(known), len(known)
    for part in parts:
        for each in part:
            changed(table, *each)
            most = max(most, len(table))
    return most


def visible_changes(known, wanted):
    """The changes to rules that an event may meet, in safe order."""
    standing = [cell_of(known[key]) for key in known.keys() & wanted.keys() if is_detour(known[key])]

    def is_hidden(rule):
        below = rule.table == FORWARDING and not is_detour(rule)
        return below and any(cell.covers(cell_of(rule)) for cell in standing)

    return [each for each in rule_changes(known, wanted, known.keys() | wanted.keys()) if not is_hidden(each.rule)]


@given(tables(), tables(), sizes, st.booleans())
def test_from_any_table_to_any_other_nothing_wanted_in_both_is_lost_between_two_bundles(known, wanted, size, tight):
    table = dict(known)
    for part in bundles(known, wanted, known.keys() | wanted.keys(), size=size, tight=tight):
        for each in part:
            changed(table, *each)
        assert not is_lost(known, table, wanted)
    assert table == wanted


@given(tables(), tables(), sizes)
def test_bundles_are_full_and_each_deletes_before_it_adds(known, wanted, size):
    parts = bundles(known, wanted, known.keys() | wanted.keys(), size=size)
    assert [len(part) for part in parts[:-1]] == [size] * (len(parts) - 1)
    assert all(0 < len(part) <= size for part in parts)
    for part in parts:
        deletes = [change is Change.DELETE for change, _ in part]
        assert deletes == sorted(deletes, reverse=True)


@given(tables(), tables(), sizes)
def test_what_no_detour_hides_goes_in_safe_order(known, wanted, size):
    parts = bundles(known, wanted, known.keys() | wanted.keys(), size=size)
    place = {rule.key: number for number, part in enumerate(parts) for _, rule in part}
    places = [place[rule.key] for _, rule in visible_changes(known, wanted)]
    assert places == sorted(places)


@given(st.data(), st.sets(cells, min_size=1, max_size=2), sizes, st.booleans())
def test_below_detours_a_table_turns_over_in_the_room_of_the_larger_one(data, below, size, tight):
    known, wanted = data.draw(tables(below)), data.draw(tables(below))
    parts = bundles(known, wanted, known.keys() | wanted.keys(), size=size, tight=tight)
    event(f"{min(len(parts), 5)} bundles")
    assert most_rules(known, parts) <= max(len(known), len(wanted))
    assert all(len(part) <= size or tight for part in parts)


@given(tables(), tables(), sizes, st.booleans())
def test_only_additions_that_events_meet_take_room_of_their_own(known, wanted, size, tight):
    added = sum(change is Change.ADD for change, _ in visible_changes(known, wanted))
    most = most_rules(known, bundles(known, wanted, known.keys() | wanted.keys(), size=size, tight=tight))
    assert most <= max(len(known), len(wanted)) + (0 if tight else added)
