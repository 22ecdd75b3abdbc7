import pytest

from pleroma.errors import DzError
from pleroma.index import ROOT, Dz, DzSet


def test_a_prefix_covers_what_it_begins():
    assert Dz.parse("10").covers(Dz.parse("1001"))
    assert Dz.parse("10").covers(Dz.parse("10"))
    assert not Dz.parse("1001").covers(Dz.parse("10"))
    assert not Dz.parse("11").covers(Dz.parse("1001"))
    assert ROOT.covers(Dz.parse("0"))


def test_the_overlap_of_two_dz_is_the_longer_one():
    assert Dz.parse("1").meet(Dz.parse("101")) == Dz.parse("101")
    assert Dz.parse("101").meet(Dz.parse("1")) == Dz.parse("101")
    assert Dz.parse("0").meet(Dz.parse("1")) is None
    assert Dz.parse("1").overlaps(Dz.parse("101"))
    assert Dz.parse("101").overlaps(Dz.parse("1"))
    assert not Dz.parse("100").overlaps(Dz.parse("101"))


def test_family_relations():
    dz = Dz.parse("110")
    assert (str(dz.parent), str(dz.sibling), [str(c) for c in dz.children]) == ("11", "111", ["1100", "1101"])
    assert dz.length == 3
    assert str(dz.truncate(2)) == "11"
    assert dz.truncate(9) == dz


def test_text_and_back():
    assert str(Dz.parse("0010")) == "0010"
    assert Dz.parse("") == Dz.parse("ε") == ROOT
    assert str(ROOT) == "ε"
    assert repr(Dz.parse("01")) == "Dz('01')"


@pytest.mark.parametrize("bad", ["2", "0 1", "0" * 113, "0b1"])
def test_text_that_is_no_bit_string_is_refused(bad):
    with pytest.raises(DzError, match="bits"):
        Dz.parse(bad)


def test_what_has_no_meaning_is_refused():
    for wrong in (lambda: Dz(0), lambda: Dz(-1), lambda: Dz(1 << 113), lambda: ROOT.parent, lambda: ROOT.sibling):
        with pytest.raises(DzError):
            wrong()
    with pytest.raises(DzError):
        Dz.parse("01").truncate(-1)


def test_0_minus_000_is_the_papers_example():
    """Bhowmik et al. 2017, III-A: 001, 010 and 011, of which the last two are siblings and so become 01."""
    rest = DzSet.parse("0") - DzSet.parse("000")
    assert rest == DzSet.parse("001", "010", "011")
    assert [str(dz) for dz in rest] == ["001", "01"]


def test_siblings_merge_up_to_the_root():
    assert DzSet.parse("00", "01", "1") == DzSet([ROOT])
    assert len(DzSet.parse("01", "10")) == 2


def test_covered_members_vanish():
    assert DzSet.parse("0", "0110") == DzSet.parse("0")


def test_truncation_encloses():
    assert DzSet.parse("0010", "1").truncate(2) == DzSet.parse("00", "1")
    assert DzSet.parse("0010").truncate(0) == DzSet([ROOT])


def test_coarsening_grows_as_little_as_possible():
    cells = DzSet.parse("0000", "0011", "1110")
    assert cells.coarsen(2) == DzSet.parse("00", "1110")
    assert cells.coarsen(1) == DzSet([ROOT])
    assert cells.coarsen(3) == cells


def test_a_region_cannot_be_covered_by_nothing():
    with pytest.raises(DzError):
        DzSet.parse("0").coarsen(0)
    assert DzSet().coarsen(0) == DzSet()
    with pytest.raises(DzError):
        DzSet.parse("0").truncate(-1)


def test_sizes():
    assert DzSet.parse("0", "10").volume == 0.75
    assert DzSet().volume == 0
    assert DzSet.parse("0", "1100").longest == 4
    assert str(DzSet.parse("001", "011")) == "{001, 011}"
    assert eval(repr(DzSet.parse("001", "011"))) == DzSet.parse("001", "011")  # noqa: S307
