"""One pass over bits finds what the papers' loops over events and subscriptions find."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.content import Filter, Integer, Schema
from pleroma.content.batch import EventBatch
from pleroma.evaluation.bit_rows import BitRows, exact_rows, stacked
from pleroma.evaluation.sample import Sample
from pleroma.selection.adaptive import workload
from pleroma.selection.dimension_scores import (
    event_covariance,
    false_match_covariance,
    false_match_scores,
    match_count_scores,
    match_covariance,
    match_scores,
    overlap_scores,
    variance_scores,
)
from pleroma.selection.traffic_statistics import TrafficStatistics
from support import paper_transcriptions as papers
from support.strategies import events, filters, schemas


@st.composite
def traffic(draw):
    schema = draw(schemas(most=4))
    subscriptions = draw(st.lists(filters(schema), min_size=1, max_size=12))
    return schema, subscriptions, draw(st.lists(events(schema), min_size=1, max_size=15))


def sample_of(schema, subscriptions, listed):
    return Sample.of(EventBatch.from_events(schema, listed), subscriptions)


def near(expected):
    return pytest.approx(np.array(expected, np.float64), rel=1e-8, abs=1e-8)


def bits_of(part, event, boxes):
    row = part.rows[part.of_event[event]].tolist()
    assert not any(word >> 64 for word in row)
    return [bool(row[box >> 6] >> (box & 63) & 1) for box in range(boxes)]


@given(traffic())
def test_counts_are_what_loops_over_events_and_boxes_count(drawn):
    schema, subscriptions, listed = drawn
    boxes = papers.boxes_of(subscriptions)
    found = TrafficStatistics.of(sample_of(*drawn))
    dims = range(len(schema))
    along = [[[papers.matches_at(box, e, d) for d in dims] for box in boxes] for e in listed]
    assert (found.events, found.boxes) == (len(listed), len(boxes))
    assert found.matches == sum(papers.matches(box, e) for e in listed for box in boxes)
    for i in dims:
        assert found.touched[i] == sum(any(row[i] for row in by_box) for by_box in along)
        for j in dims:
            assert found.pairs[i, j] == sum(row[i] and row[j] for by_box in along for row in by_box)
        for box in range(len(boxes)):
            mine = [by_box for by_box in along if by_box[box][i]]
            assert found.covered[box, i] == len(mine)
            assert found.alone[box, i] == sum(sum(row[i] for row in by_box) == 1 for by_box in mine)


def test_boxes_beyond_a_word_of_bits_are_told_apart():
    schema = Schema("line", (Integer("a", False, 0, 149),))
    subscriptions = [Filter.parse(schema, f"a == {k}") for k in range(150)]
    found = TrafficStatistics.of(sample_of(schema, subscriptions, [schema.event(a=k) for k in (0, 63, 64, 64, 149)]))
    expected = [{0: 1, 63: 1, 64: 2, 149: 1}.get(k, 0) for k in range(150)]
    assert found.alone[:, 0].tolist() == found.covered[:, 0].tolist() == expected


@given(traffic())
def test_scores_and_matrices_are_those_of_the_papers(drawn):
    schema, subscriptions, listed = drawn
    boxes = papers.boxes_of(subscriptions)
    found = TrafficStatistics.of(sample_of(*drawn))
    assert variance_scores(found) == near(papers.event_variance(schema, listed))
    assert overlap_scores(found) == near(papers.subscription_overlap(schema, boxes, listed))
    assert match_scores(found) == near(papers.subscription_matches(schema, boxes, listed))
    assert match_count_scores(found) == near(papers.event_match_count(schema, boxes, listed))
    assert false_match_scores(found) == near(papers.false_matches(schema, boxes, listed))
    assert event_covariance(found) == near(papers.covariance_of_events(schema, listed))
    assert match_covariance(found) == near(papers.covariance_of_matches(schema, boxes, listed))
    assert false_match_covariance(found) == near(papers.covariance_of_false_matches(schema, boxes, listed))


@given(traffic(), st.data())
def test_statistics_of_parts_add_up_to_those_of_the_whole(drawn, data):
    schema, subscriptions, listed = drawn
    listed = [*listed, listed[0]]
    middle = data.draw(st.integers(1, len(listed) - 1))
    parts = (listed[:middle], listed[middle:])
    first, second = (TrafficStatistics.of(sample_of(schema, subscriptions, part)) for part in parts)
    whole, summed = TrafficStatistics.of(sample_of(schema, subscriptions, listed)), first + second
    for each in fields(TrafficStatistics):
        expected, found = np.asarray(getattr(whole, each.name)), np.asarray(getattr(summed, each.name))
        assert found.dtype.kind == "i"
        assert np.array_equal(found, expected), each.name


@given(traffic())
def test_exact_rows_have_the_bits_of_the_boxes_that_match_and_workloads_their_number(drawn):
    schema, subscriptions, listed = drawn
    sample, boxes = sample_of(*drawn), papers.boxes_of(subscriptions)
    for d in range(len(schema)):
        part = exact_rows(sample, d)
        for row, event in enumerate(listed):
            assert bits_of(part, row, len(boxes)) == [papers.matches_at(box, event, d) for box in boxes]
    assert workload(sample).tolist() == [papers.workload_of(boxes, event) for event in listed]


cell_numbers = st.lists(st.integers(0, 9), min_size=1, max_size=20)
stretches = st.lists(st.tuples(st.integers(-1, 10), st.integers(-1, 10)), max_size=150)


@given(cell_numbers, stretches)
def test_bit_rows_have_the_bits_of_the_stretches_that_meet_the_cell(cells, spans):
    first, last = np.array(spans, np.int64).reshape(-1, 2).T
    part = BitRows.of(np.array(cells, np.int64), first, last)
    assert len(part.rows) == len(set(cells))
    for event, cell in enumerate(cells):
        assert bits_of(part, event, len(spans)) == [low <= cell <= high for low, high in spans]
        assert sum(int(word).bit_count() for word in part.rows[part.of_event[event]]) == sum(
            low <= cell <= high for low, high in spans
        )


@given(st.lists(st.lists(st.integers(0, 9), min_size=7, max_size=7), min_size=1, max_size=4))
def test_stacked_rows_are_found_where_the_index_says(columns):
    bounds = np.arange(10, dtype=np.int64)
    parts = [BitRows.of(np.array(cells, np.int64), bounds, bounds) for cells in columns]
    rows, index = stacked(parts)
    assert index.shape == (7, len(columns))
    for event in range(7):
        assert [int(rows[place, 0]) for place in index[event]] == [1 << cells[event] for cells in columns]
