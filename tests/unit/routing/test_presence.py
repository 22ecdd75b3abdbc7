from pleroma.routing import build
from pleroma.routing.presence import Presence


def test_a_switch_that_is_away_keeps_its_place_without_links_and_hosts():
    whole = build("line:3")
    left = Presence({"R2"}).of(whole)
    assert left.switches == whole.switches
    assert left.links == ()
    assert [h.name for h in left.hosts] == ["h1", "h3"]
    assert left.datapath == whole.datapath


def test_a_link_is_there_when_both_its_ends_are():
    whole = build("line:3")
    first, second = whole.links
    for place in first.ends:
        assert Presence(down={place}).of(whole).links == (second,)


def test_a_host_at_a_port_that_is_down_is_away():
    whole = build("line:2")
    assert [h.name for h in Presence(down={("R1", 1)}).of(whole).hosts] == ["h2"]


def test_unreachable_are_those_away_and_those_cut_off_from_most():
    whole = build("line:4")
    assert Presence().unreachable(whole) == []
    assert Presence({"R1"}).unreachable(whole) == ["h1"]
    assert Presence(down={whole.links[0].ends[0]}).unreachable(whole) == ["h1"]
    assert Presence({"R1", "R2", "R3", "R4"}).unreachable(whole) == ["h1", "h2", "h3", "h4"]
