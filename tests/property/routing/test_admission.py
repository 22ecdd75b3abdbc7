"""What a host may send equals the union of its advertisements, by the fewest cells, whatever the order of requests."""

from hypothesis import given
from hypothesis import strategies as st

from pleroma.index import Dz
from pleroma.routing import build
from pleroma.routing.admission import Admissions

TOPOLOGY = build("line:2")
cells = st.text("01", max_size=5).map(Dz.parse)
regions = st.lists(cells, min_size=1, max_size=4, unique=True)
events = [Dz.parse(f"{n:05b}") for n in range(32)]
regions_asked = [[Dz.parse(each) for each in asked.split()] for asked in ("01", "00 111", "0010", "11011 10")]


@given(st.lists(st.tuples(st.sampled_from(["h1", "h2"]), regions, st.booleans()), max_size=12))
def test_admitted_is_what_is_advertised(steps):
    admissions = Admissions()
    standing: list[tuple[str, list[Dz]]] = []
    rules: dict[str, set[Dz]] = {"h1": set(), "h2": set()}
    for host, region, withdraw in steps:
        if withdraw and standing:
            host, region = standing.pop(0)
            changes = admissions.remove(host, region)
        else:
            standing.append((host, region))
            changes = admissions.add(host, region)
        assert not changes.come & rules[host]
        assert changes.gone <= rules[host]
        rules[host] = (rules[host] | changes.come) - changes.gone
        for each in ("h1", "h2"):
            advertised = {dz for name, region in standing if name == each for dz in region}
            outermost = {dz for dz in advertised if not any(o != dz and o.covers(dz) for o in advertised)}
            assert rules[each] == admissions.of(each) == outermost
            for event in events:
                assert admissions.admits(each, event) == any(dz.covers(event) for dz in advertised)
            for asked in regions_asked:
                assert admissions.meets(each, asked) == any(dz.overlaps(cell) for dz in advertised for cell in asked)
    assert {(op.switch, op.port, op.dz) for op in admissions.operations(TOPOLOGY)} == {
        (TOPOLOGY.host[host].switch, TOPOLOGY.host[host].port, dz) for host, cells in rules.items() for dz in cells
    }
