import json

import numpy as np
import pytest

from pleroma.content import Category, Filter, Integer, Real, Schema, Text
from pleroma.errors import ContentError, DomainError, PlanError
from pleroma.index import ROOT, DzSet, GridIndex, IndexPlan, evaluate

PLANE = Schema("plane", (Real("A", False, 0, 100), Real("B", False, 0, 100)))
QUOTES = Schema(
    "quotes",
    (
        Real("price", False, 0, 1000),
        Integer("volume", True, 0, 1023),
        Text("ticker", False),
        Category("market", False, ("lse", "nyse", "nasdaq")),
    ),
)


def parse(text, schema=PLANE):
    return Filter.parse(schema, text)


def test_the_upper_quadrant_is_11():
    """Bhowmik et al. 2018, II: sub1 with T and P in [50, 100]."""
    assert GridIndex.regular(PLANE, 2).cover(parse("A >= 50 and B >= 50")) == DzSet.parse("11")


def test_figure_2_2_of_the_masters_thesis():
    index = GridIndex.regular(PLANE, 3)
    assert index.cover(parse("A < 50 and B >= 50")) == DzSet.parse("01")
    assert index.cover(parse("A >= 25 and A < 50")) == DzSet.parse("001", "011")


def test_sub1_of_figure_2_needs_two_dz():
    """Bhowmik et al. 2017, figure 2: 110 and 100 are the half above the first cut, left of the third."""
    found = GridIndex.regular(PLANE, 3).cover(parse("A >= 50 and A < 75"))
    assert found == DzSet.parse("110", "100")


def test_dimensions_take_turns_and_drop_out_when_told_apart():
    index = GridIndex.regular(QUOTES, 14)
    assert index.order[:8] == (0, 1, 2, 3, 0, 1, 2, 3)
    assert 3 not in index.order[8:]
    assert GridIndex.regular(Schema("one", (Category("m", False, ("a", "b", "c")),)), 50).bits == 2


def test_any_order_and_any_subset_of_dimensions():
    index = GridIndex(PLANE, (1, 1, 0))
    assert str(index.dz(PLANE.event(A=80, B=30))) == "011"
    assert GridIndex.regular(PLANE, 4, ["B"]).cover(parse("A < 10")) == DzSet([ROOT])


def test_listed_boundaries_put_the_cuts_where_asked():
    index = GridIndex(PLANE, (0, 0), {0: (10.0, 20.0, 30.0)})
    cells = {a: str(index.dz(PLANE.event(A=a, B=0))) for a in (0, 9.9, 10, 19, 20, 29, 30, 100)}
    assert cells == {0: "00", 9.9: "00", 10: "01", 19: "01", 20: "10", 29: "10", 30: "11", 100: "11"}
    assert index.cover(parse("A between 12 and 18")) == DzSet.parse("01")


def test_boundaries_that_do_not_separate_leave_cells_empty():
    index = GridIndex(PLANE, (0, 0), {0: (50.0, 50.0, 50.0)})
    assert str(index.dz(PLANE.event(A=50, B=0))) == "11"
    assert str(index.dz(PLANE.event(A=49, B=0))) == "00"
    assert index.cover(parse("A >= 50")) == DzSet.parse("11")


def test_a_limit_on_members_costs_volume_never_a_match():
    index = GridIndex.regular(PLANE, 12)
    wanted = parse("A between 13 and 71 and B between 22 and 64")
    tight = index.cover(wanted)
    for most in (1, 2, 3, 5, 8, 13, 21):
        loose = index.cover(wanted, max_members=most)
        assert len(loose) <= most
        assert loose.covers(tight)
        assert loose.volume <= tight.coarsen(most).volume * 1.1


def test_a_limit_on_length_is_the_truncation_of_the_full_cover():
    index = GridIndex.regular(PLANE, 12)
    wanted = parse("A between 13 and 71 and B between 22 and 64")
    for length in range(13):
        assert index.cover(wanted, max_length=length) == index.cover(wanted).truncate(length)


def test_text_narrows_by_prefix_in_order_and_by_equality_when_hashed():
    for linearise, narrowed in (("order", True), ("hash", False)):
        schema = Schema("t", (Text("ticker", False, linearise),))
        index = GridIndex.regular(schema, 24)
        assert index.cover(parse("ticker == 'AAPL'", schema)).longest == 24
        assert (index.cover(parse("ticker startswith 'AA'", schema)) != DzSet([ROOT])) is narrowed


def test_no_bits_means_one_cell_for_everything():
    index = GridIndex.regular(PLANE, 0)
    assert index.dz(PLANE.event(A=1, B=2)) == ROOT
    assert index.cover(parse("A < 1")) == DzSet([ROOT])
    assert index.encode(np.array([[1.0, 2.0]])).dz(0) == ROOT


def test_a_domain_of_one_value_needs_no_bits():
    schema = Schema("point", (Integer("n", False, 7, 7), Real("x", False, 2.0, 2.0)))
    index = GridIndex.regular(schema, 10)
    assert index.bits == 0
    assert index.cover(Filter.parse(schema, "n == 7")) == DzSet([ROOT])


def test_nothing_is_covered_by_nothing():
    index = GridIndex.regular(PLANE, 8)
    assert index.cover(Filter.nothing(PLANE)) == DzSet()
    assert index.cover(Filter.everything(PLANE)) == DzSet([ROOT])


def test_bad_orders_and_boundaries():
    for wrong in (
        lambda: GridIndex(PLANE, (0, 2)),
        lambda: GridIndex(PLANE, (0,) * 33),
        lambda: GridIndex(PLANE, (0, 1) * 57),
        lambda: GridIndex(PLANE, (0, 0), {0: (1.0, 2.0)}),
        lambda: GridIndex(PLANE, (0, 0), {0: (3.0, 2.0, 1.0)}),
        lambda: GridIndex(PLANE, (0, 0), {0: (1.0, float("nan"), 3.0)}),
        lambda: GridIndex(PLANE, (0, 0), {1: (1.0,)}),
        lambda: GridIndex.regular(PLANE, -1),
        lambda: GridIndex.regular(PLANE, 113),
        lambda: GridIndex.regular(PLANE, 4, ["A", "A"]),
        lambda: GridIndex.regular(PLANE, 8).cover(parse("A < 3"), max_members=0),
        lambda: GridIndex.regular(PLANE, 8).cover(parse("A < 3"), max_length=-1),
    ):
        with pytest.raises(PlanError):
            wrong()
    with pytest.raises(ContentError, match="did you mean 'A'"):
        GridIndex.regular(PLANE, 4, ["a"])


def test_batches_must_be_points():
    index = GridIndex.regular(PLANE, 8)
    with pytest.raises(DomainError, match="2 columns"):
        index.encode(np.zeros((3, 5)))
    for bad in (np.nan, np.inf, -np.inf):
        points = np.zeros((1000, 2))
        points[700, 1] = bad
        with pytest.raises(DomainError, match=r"B: .* in row 700"):
            index.encode(points)
        with pytest.raises(DomainError, match="row 700"):
            GridIndex(PLANE, (1, 1), {1: (1.0, 2.0, 3.0)}).encode(points)


def test_events_and_filters_of_another_schema_are_refused():
    index = GridIndex.regular(PLANE, 8)
    event = QUOTES.event(price=1, ticker="A", market="lse")
    with pytest.raises(ContentError, match="schema"):
        index.dz(event)
    with pytest.raises(ContentError, match="schema"):
        index.cover(Filter.everything(QUOTES))


def test_a_plan_survives_the_journey_and_shows_damage():
    plan = IndexPlan(3, GridIndex(QUOTES, (0, 0, 2, 3), {0: (0.1, 2.5, 1e3)}))
    text = plan.dumps()
    assert IndexPlan.loads(text) == plan
    assert IndexPlan.loads(text).checksum == plan.checksum
    for damage in (text.replace('"epoch":3', '"epoch":4'), text[:-5], "[]", "{}", text.replace("2.5", "2.6")):
        with pytest.raises(PlanError):
            IndexPlan.loads(damage)


def test_a_plan_with_a_right_checksum_and_wrong_contents_is_refused():
    from pleroma.index.plan import _canonical, _checksum

    good = json.loads(IndexPlan(0, GridIndex.regular(PLANE, 4)).dumps())
    del good["checksum"]
    for change in (
        {"index": {"kind": "cube"}},
        {"index": {"kind": "grid", "order": "0101"}},
        {"index": {"kind": "grid", "order": [0], "boundaries": {"A": 3}}},
        {"index": {"kind": "grid", "order": [0.5]}},
        {"epoch": -1},
        {"epoch": "1"},
        {"format": 2},
    ):
        body = good | change
        with pytest.raises(PlanError):
            IndexPlan.loads(_canonical(body | {"checksum": _checksum(body)}))


def test_the_reference_evaluator_counts_by_hand():
    index = GridIndex.regular(PLANE, 2)
    events = [PLANE.event(A=a, B=b) for a, b in ((60, 60), (90, 90), (10, 10))]
    waste = evaluate(index, [parse("A >= 80 and B >= 80"), parse("A < 50")], events)
    assert (waste.deliveries, waste.wanted, waste.wasted) == (3, 2, 1)
    assert waste.rate == pytest.approx(1 / 3)
    assert evaluate(index, [], events).rate == 0.0


def test_the_reference_evaluator_sees_a_miss():
    class Blind(GridIndex):
        def cover(self, *_, **__):
            return DzSet()

    with pytest.raises(AssertionError, match="matches"):
        evaluate(Blind(PLANE, (0, 1)), [parse("A < 50")], [PLANE.event(A=1, B=1)])


def test_compiled_covers_have_no_more_members_than_they_may():
    """One more than allowed is where the best members have to be looked for."""
    tables = GridIndex.regular(PLANE, 6).tables
    spans = [(low, high) for low in range(8) for high in range(low, 8)]
    for most in (1, 2, 3, 4):
        assert max(len(tables.cover([[a, b]], 6, most)) for a in spans for b in spans) == most


def test_what_lies_however_far_outside_of_the_cells_belongs_to_the_first_or_the_last():
    far = 1e308
    schema = Schema("far", (Real("a", False, -far / 2, far / 2),))
    index = GridIndex(schema, (0, 0), within={0: (0.0, 1e-300)})
    found = [str(index.dz(schema.event(a=value))) for value in (-far / 2, -1.0, 0.0, 1e-300, 1.0, far / 2)]
    assert found == ["00", "00", "00", "11", "11", "11"]
    one_cell = GridIndex(schema, (0, 0), within={0: (0.0, 0.0)})  # too narrow to be cut
    assert str(one_cell.dz(schema.event(a=far / 2))) == "00"
