"""Every technique by name, on traffic small enough to see the right answer."""

import numpy as np
import pytest

from pleroma.content import Filter, Integer, Real, Schema
from pleroma.content.batch import EventBatch
from pleroma.errors import PleromaError, TuningError, UnknownName
from pleroma.evaluation.grid_evaluator import GridEvaluator
from pleroma.evaluation.sample import Sample
from pleroma.index import MAX_LENGTH
from pleroma.selection.dimension_counts import count_by_eigenvalues, count_by_evaluation
from pleroma.selection.dimension_scores import match_covariance
from pleroma.selection.dimension_selection import TECHNIQUES, select
from pleroma.selection.evidence import Evidence
from pleroma.selection.traffic_statistics import TrafficStatistics
from support import paper_transcriptions as papers

GUIDED = sorted(set(TECHNIQUES) - {"random"})
FEATURES = [name for name in GUIDED if name.startswith("pfs")]
RANKING = [name for name in GUIDED if name not in FEATURES]


def integers(names):
    return Schema("grid", tuple(Integer(name, False, 0, 99) for name in names))


def gathered(schema, events, texts, bits=6, seed=0):
    """Evidence from rows of values and filter texts."""
    batch = EventBatch.from_columns(schema, dict(zip(schema.names, np.array(events).T, strict=True)))
    sample = Sample.of(batch, [Filter.parse(schema, text) for text in texts])
    return Evidence(TrafficStatistics.of(sample), GridEvaluator(sample, bits), seed)


def mixed(dims=4, events=60, subscriptions=25, seed=3, boxes=1):
    """Dimensions of decreasing use: the later, the wider the ranges and the narrower the values."""
    rng = np.random.default_rng(seed)
    schema = integers("abcdef"[:dims])
    rows = np.column_stack([rng.integers(0, 100 >> d, events) for d in range(dims)])

    def box():
        parts = []
        for d, name in enumerate(schema.names):
            low = int(rng.integers(0, 90))
            parts.append(f"{name} between {low if d < 2 else low // 10} and {min(99, low + 10 * (d + 1))}")
        return " and ".join(parts)

    texts = [" or ".join(box() for _ in range(boxes)) for _ in range(subscriptions)]
    return schema, rows, texts


# -- what every technique owes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("technique", TECHNIQUES)
@pytest.mark.parametrize("boxes", [1, 3])
def test_every_count_gives_that_many_distinct_dimensions_in_the_order_of_the_schema(technique, boxes):
    evidence = gathered(*mixed(boxes=boxes))
    for count in range(1, 5):
        chosen = select(technique, evidence, count)
        assert len(chosen) == count
        assert list(chosen) == sorted(set(chosen))
        assert set(chosen) <= set(range(4))
    assert select(technique, evidence, 4) == (0, 1, 2, 3)


@pytest.mark.parametrize("technique", RANKING)
def test_a_constant_dimension_is_never_preferred(technique):
    """All events have a = 7 and all subscriptions ask for it; b and c tell both apart."""
    events = [(7, (37 * k) % 100, (61 * k + 13) % 100) for k in range(100)]
    ranges = [(low, low + 19, 80 - low, 99 - low) for low in range(0, 81, 10)]
    texts = [f"a between 0 and 50 and b between {b} and {c} and c between {d} and {e}" for b, c, d, e in ranges]
    evidence = gathered(integers("abc"), events, texts)
    assert select(technique, evidence, 1) in {(1,), (2,)}
    assert select(technique, evidence, 2) == (1, 2)


@pytest.mark.parametrize("technique", GUIDED)
def test_identical_dimensions_tie_to_the_first(technique):
    """Values that sums of doubles round, so that only equal treatment keeps them equal."""
    schema = Schema("alike", tuple(Real(name, False, 0.0, 1.0) for name in "abcde"))
    values = np.random.default_rng(5).random(101)
    texts = [" and ".join(f"{name} between {low / 10} and {low / 10 + 0.15}" for name in "abcde") for low in range(8)]
    evidence = gathered(schema, np.column_stack([values] * 5), texts, bits=5)
    assert select(technique, evidence, 1) == (0,)
    if technique not in FEATURES:  # all components but the first are arbitrary here
        assert select(technique, evidence, 3) == (0, 1, 2)


@pytest.mark.parametrize("technique", RANKING)
def test_constant_dimensions_tie_to_the_first_whatever_their_values(technique):
    """Sums of these do not cancel out exactly, which must not look like variance."""
    schema = Schema("still", tuple(Real(name, False, 0.0, 1.0) for name in "abc"))
    evidence = gathered(schema, [(0.1, 0.7, 0.9)] * 5000, ["true", "true"])
    assert select(technique, evidence, 1) == (0,)
    assert select(technique, evidence, 2) == (0, 1)


@pytest.mark.parametrize("technique", TECHNIQUES)
@pytest.mark.parametrize(
    ("events", "texts"),
    [
        ([(1, 2, 3), (4, 50, 6), (7, 8, 90)], ["a < 5 and b > 3"]),
        ([(1, 2, 3), (4, 50, 6), (7, 8, 90)], ["a > 90 and b > 90 and c > 95", "a > 95"]),
        ([(1, 2, 3)], ["a < 5 and b > 3", "c > 2"]),
        ([(1, 2, 3), (4, 50, 6)], ["false", "false"]),
    ],
    ids=["one subscription", "no event matches", "one event", "subscriptions to nothing"],
)
def test_little_to_learn_from_is_enough_for_an_answer(technique, events, texts):
    evidence = gathered(integers("abc"), events, texts)
    for count in (1, 2, 3):
        assert len(set(select(technique, evidence, count))) == count


def test_names_of_both_papers_mean_the_same_techniques():
    for seed in range(5):
        evidence = gathered(*mixed(dims=5, seed=seed))
        for count in range(1, 6):
            for one, other in (("cs", "pcs-cmm"), ("gs", "ges"), ("brs", "bes")):
                assert select(one, evidence, count) == select(other, evidence, count)


# -- single techniques -----------------------------------------------------------------------------------------------


def test_variance_ranks_by_spread_within_the_domain_not_by_its_unit():
    schema = Schema("units", (Integer("cents", False, 0, 100_000), Real("share", False, 0.0, 1.0)))
    evidence = gathered(schema, [(40_000, 0.0), (60_000, 1.0)], ["true"])
    assert select("evs", evidence, 1) == (1,)


def test_overlap_sees_which_events_are_shared_not_how_wide_ranges_are():
    """Figure 3.7: ranges overlap widely along b, but where they do there are no events."""
    events = [(50, 5), (50, 7), (50, 93), (50, 95)]
    texts = ["a between 45 and 55 and b < 90", "a between 48 and 52 and b > 10"]
    evidence = gathered(integers("ab"), events, texts)
    assert select("sos", evidence, 1) == (1,)


@pytest.mark.parametrize("seed", range(6))
def test_overlap_does_not_depend_on_the_order_of_subscriptions(seed):
    """Along b the ranges are those along a, handed out from the last to the first."""
    rng = np.random.default_rng(seed)
    ranges = [(int(low), int(low) + 15) for low in rng.integers(0, 80, 9)]
    pairs = zip(ranges, reversed(ranges), strict=True)
    texts = [f"a between {p} and {q} and b between {r} and {s}" for (p, q), (r, s) in pairs]
    evidence = gathered(integers("ab"), [(k, k) for k in rng.integers(0, 100, 60)], texts)
    assert select("sos", evidence, 1) == (0,)


def test_overlap_cannot_tell_two_overlapping_subscriptions_from_many_but_match_counts_can():
    """Figure 3.8. Along a all four match an event, along b two do."""
    events = [(5, 10), (5, 80)]
    texts = ["b < 50", "b < 40", "b > 50", "b > 60"]
    evidence = gathered(integers("ab"), events, texts)
    assert select("sos", evidence, 1) == (0,)  # a tie
    for technique in ("sms", "emcs"):
        assert select(technique, evidence, 1) == (1,)


def test_events_that_nobody_matches_count_for_match_counts_over_all_events_only():
    """Along b most events are outside of all ranges, and both subscriptions match the others."""
    events = [(10, 90), (10, 90), (60, 5), (60, 90)]
    texts = ["a < 70 and b < 10", "a between 50 and 99 and b < 10"]
    evidence = gathered(integers("ab"), events, texts)
    assert select("sms", evidence, 1) == (0,)
    assert select("emcs", evidence, 1) == (1,)


def test_false_matches_make_a_dimension_worse():
    """Along a every match is a match in full, along b one in three."""
    events = [(10, 10), (60, 10), (60, 10)]
    evidence = gathered(integers("ab"), events, ["a < 20 and b < 20"])
    assert select("sfs", evidence, 1) == (0,)
    swapped = gathered(integers("ab"), [row[::-1] for row in events], ["b < 20 and a < 20"])
    assert select("sfs", swapped, 1) == (1,)


@pytest.mark.parametrize("technique", FEATURES)
def test_principal_features_take_one_of_each_pair_of_alike_dimensions(technique):
    """a goes with c and b with d, in events and in subscriptions."""
    rng = np.random.default_rng(1)
    one, other = rng.integers(0, 100, 80), rng.integers(30, 60, 80)
    ranges = [(int(p), int(p) + 30, int(q), int(q) + 8) for p, q in rng.integers((0, 30), (70, 50), (20, 2))]
    texts = [
        f"a between {p} and {q} and c between {p} and {q} and b between {r} and {s} and d between {r} and {s}"
        for p, q, r, s in ranges
    ]
    evidence = gathered(integers("abcd"), np.column_stack([one, other, one, other]), texts)
    assert select(technique, evidence, 2) == (0, 1)


def test_random_choice_depends_on_the_seed_alone():
    chosen = [select("random", gathered(*mixed(dims=6), seed=seed), 2) for seed in range(12)]
    assert len(set(chosen)) > 4
    assert chosen == [select("random", gathered(*mixed(dims=6, events=9), seed=seed), 2) for seed in range(12)]


# -- trying it out ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_greedy_and_brute_force_choose_what_simulation_with_the_reference_chooses(seed):
    schema, rows, texts = mixed(events=25, subscriptions=8, seed=seed, boxes=1 + seed % 2)
    evidence = gathered(schema, rows, texts, bits=5)
    events = [schema.event(dict(zip(schema.names, row, strict=True))) for row in rows.tolist()]
    simulation = papers.Simulation(schema, [Filter.parse(schema, text) for text in texts], events, 5)
    for count in (1, 2, 3):
        assert select("bes", evidence, count) == simulation.brute_force(count)
        assert select("ges", evidence, count) == simulation.greedy(count)
    assert count_by_evaluation(evidence) == simulation.best_count()


def test_brute_force_never_wastes_more_than_any_other_technique():
    for seed in range(6):
        evidence = gathered(*mixed(dims=5, seed=seed), bits=7)
        for count in range(1, 6):
            best = evidence.evaluator.waste(select("bes", evidence, count)).wasted
            for technique in TECHNIQUES:
                assert best <= evidence.evaluator.waste(select(technique, evidence, count)).wasted


# -- how many --------------------------------------------------------------------------------------------------------


def test_eigenvalues_count_the_dimensions_that_vary():
    """a and b vary independently and alike, c hardly, d not at all."""
    events = [(10 * i, 10 * j, (i + j) % 2, 7) for i in range(10) for j in range(10)]
    evidence = gathered(integers("abcd"), events, ["a < 50", "b > 20"])
    assert count_by_eigenvalues(evidence, 0.49) == 1
    assert count_by_eigenvalues(evidence, 0.51) == 2
    assert count_by_eigenvalues(evidence, 0.9) == 2
    assert count_by_eigenvalues(evidence, 0.99999) == 3
    assert count_by_eigenvalues(evidence, 1.0) == 3


def test_correlated_dimensions_are_one_component():
    events = [(k, 99 - k, k) for k in range(100)]
    assert count_by_eigenvalues(gathered(integers("abc"), events, ["true"]), 0.999) == 1


def test_eigenvalues_may_be_those_of_another_matrix():
    evidence = gathered(*mixed(dims=5))
    counts = [count_by_eigenvalues(evidence, t, match_covariance) for t in (0.1, 0.8, 0.95, 0.999)]
    assert counts == sorted(counts)
    assert counts[0] == 1
    assert all(1 <= count <= 5 for count in counts)


def test_traffic_that_does_not_vary_needs_one_dimension_by_eigenvalues():
    assert count_by_eigenvalues(gathered(integers("ab"), [(3, 4), (3, 4)], ["true"])) == 1


def test_useless_dimensions_only_take_bits_away_and_are_not_counted():
    """One subscription a value of a: every bit that does not go to a costs."""
    events = [(k, (7 * k) % 100, (13 * k) % 100) for k in range(100)]
    evidence = gathered(integers("abc"), events, [f"a between {k} and {k + 1}" for k in range(0, 99, 3)])
    assert count_by_evaluation(evidence) == 1
    assert select("ges", evidence, 1) == (0,)


def test_fewer_dimensions_are_counted_only_where_they_improve():
    evidence = gathered(integers("abc"), [(3, 4, 5), (60, 70, 80)], ["true"])
    assert count_by_evaluation(evidence) == 3


def test_evaluation_counts_for_any_technique():
    evidence = gathered(*mixed(dims=5), bits=7)
    for technique in TECHNIQUES:
        best = count_by_evaluation(evidence, technique)
        waste = [evidence.evaluator.waste(select(technique, evidence, n)).wasted for n in range(1, 6)]
        assert waste[best - 1] == min(waste)


# -- refusals --------------------------------------------------------------------------------------------------------


def refused(kind: type[PleromaError], call, *arguments):
    with pytest.raises(kind) as caught:
        call(*arguments)
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    return caught.value


def test_an_unknown_technique_comes_with_a_suggestion():
    error = refused(UnknownName, select, "pcs-cmn", gathered(*mixed()), 2)
    assert error.suggestion in {"pcs-cmm", "pcs-cfm"}
    assert refused(UnknownName, count_by_evaluation, gathered(*mixed()), "BESS").suggestion == "bes"


@pytest.mark.parametrize("count", [0, -1, 5, True])
def test_a_count_that_the_schema_does_not_have_is_refused(count):
    error = refused(TuningError, select, "evs", gathered(*mixed()), count)
    assert (error.field, error.value) == ("dimensions", count)


@pytest.mark.parametrize("bits", [0, -1, MAX_LENGTH + 1])
def test_bits_that_no_dz_has_are_refused(bits):
    sample = gathered(*mixed()).evaluator.sample
    error = refused(TuningError, GridEvaluator, sample, bits)
    assert (error.field, error.value) == ("bits", bits)


def test_as_many_bits_as_a_dz_has_are_accepted():
    assert MAX_LENGTH == 112
    waste = GridEvaluator(gathered(*mixed()).evaluator.sample, MAX_LENGTH).waste(range(4))
    assert waste.wasted == 0


def test_nothing_to_learn_from_is_refused():
    schema = integers("ab")
    everything = Filter.everything(schema)
    batch = EventBatch.from_columns(schema, {"a": [1], "b": [2]})
    assert refused(TuningError, Sample.of, batch[:0], [everything]).field == "events"
    assert refused(TuningError, Sample.of, batch, []).field == "subscriptions"


@pytest.mark.parametrize("threshold", [0.0, -0.5, 1.0001, float("nan")])
def test_a_threshold_that_is_no_share_is_refused(threshold):
    assert refused(TuningError, count_by_eigenvalues, gathered(*mixed()), threshold).field == "threshold"


def test_statistics_of_other_subscriptions_do_not_add_up():
    one, other = gathered(*mixed()).statistics, gathered(*mixed(subscriptions=3)).statistics
    refused(TuningError, lambda: one + other)
