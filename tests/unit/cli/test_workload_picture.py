from dataclasses import replace
from itertools import pairwise

import pytest
from PIL import Image

from pleroma.cli.pictures.figure_style import GREEN, save_figure
from pleroma.cli.pictures.space_picture import draw_cover
from pleroma.cli.pictures.workload_picture import _panels
from pleroma.cli.pictures.workload_picture import draw as drawn
from pleroma.content import Boolean, Category, Filter, Integer, Schema, Text, Timestamp
from pleroma.content.batch import EventBatch
from pleroma.index import GridIndex
from pleroma.workloads import EXPRESSIVE, Workload, generate, generate_stock


def draw(workload, path):
    save_figure(drawn(workload).figure, path)


def colours(path):
    with Image.open(path) as picture:
        return {colour for _, colour in picture.convert("RGB").getcolors(2**24)}


def test_a_picture_shows_subscriptions_and_events(tmp_path):
    workload = generate(replace(EXPRESSIVE, width=0.05, subscriptions=20, events=20))
    draw(workload, tmp_path / "all.png")
    draw(Workload(workload.schema, workload.events[[]], ()), tmp_path / "none.png")
    assert len(colours(tmp_path / "all.png")) > len(colours(tmp_path / "none.png"))


def test_points_have_the_colour_of_events(tmp_path):
    schema = Schema("s", (Integer("a", False, 0, 9), Integer("b", False, 0, 9)))
    events = EventBatch.from_columns(schema, {"a": [5] * 50, "b": [5] * 50})  # many, for each is a little transparent
    draw(Workload(schema, events, ()), tmp_path / "one.png")
    wanted = tuple(int(GREEN[i : i + 2], 16) for i in (1, 3, 5))
    assert any(
        max(abs(a - b) for a, b in zip(colour, wanted, strict=True)) < 8 for colour in colours(tmp_path / "one.png")
    )


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_same_workload_makes_the_same_picture(tmp_path, ending):
    workload = generate(replace(EXPRESSIVE, subscriptions=5, events=20))
    for name in ("one", "two"):
        draw(workload, tmp_path / f"{name}.{ending}")
    assert (tmp_path / f"one.{ending}").read_bytes() == (tmp_path / f"two.{ending}").read_bytes()


def test_texts_categories_and_absent_values_can_be_drawn(tmp_path):
    schema = Schema("s", (Text("t", True), Category("c", True, ("x", "y")), Integer("a", True, 0, 3)))
    events = EventBatch.from_columns(schema, {"t": ["a", None, "$b$"], "c": ["x", "y", None], "a": [None, 1, 2]})
    filters = tuple(Filter.parse(schema, text) for text in ("t = 'a'", "t > 'zz'", "c = 'y' or a < 2", "not exists t"))
    draw(Workload(schema, events, filters), tmp_path / "mixed.svg")
    assert (tmp_path / "mixed.svg").read_text().startswith("<?xml")


def test_the_ticks_of_truth_values_and_moments_are_words_and_dates():
    days = ["2026-11-15T00:00:00Z", "2026-11-16T00:00:00Z"]
    schema = Schema("s", (Boolean("armed", True), Timestamp.of("at", False, *days)))
    events = EventBatch.from_columns(schema, {"armed": [True, None], "at": days})
    wanted = Filter.parse(schema, f"armed = true and at > '{days[0]}'")
    index = GridIndex.regular(schema, 8)
    for picture in (drawn(Workload(schema, events, (wanted,))), draw_cover(index, wanted, index.cover(wanted))):
        canvas = picture.figure.axes[0]
        assert [each.get_text() for each in canvas.get_xticklabels()] == ["false", "true"]
        first, end = schema["at"].extent
        shown = canvas.yaxis.get_major_formatter()
        assert [shown(key, 0) for key in (first, end)] == ["2026-11-15\n00:00:00Z", ""]


@pytest.mark.parametrize("count", [1, 4, 12, 49, 300])
@pytest.mark.parametrize("kind", ["text", "category"])
def test_words_below_an_axis_do_not_run_into_each_other(kind, count):
    words = [f"{number:03} of a long name" for number in range(count)]
    schema = Schema(
        "s", (Text("t", False) if kind == "text" else Category("t", False, tuple(words)), Integer("a", False, 0, 3))
    )
    events = EventBatch.from_columns(schema, {"t": words, "a": [1] * count})
    figure = drawn(Workload(schema, events, ())).figure
    figure.draw_without_rendering()
    labels = figure.axes[0].get_xticklabels()
    assert labels[0].get_text().startswith("000")
    assert len(labels) >= min(count, 2)
    spans = [each.get_window_extent() for each in labels]
    assert all(left.x1 < right.x0 for left, right in pairwise(spans))


def test_real_quotes_can_be_drawn(tmp_path):
    draw(generate_stock(), tmp_path / "stock.png")
    assert len(colours(tmp_path / "stock.png")) > 100


def test_panels_are_pairs_of_dimensions_and_at_most_four():
    assert _panels(generate(replace(EXPRESSIVE, dimensions=10))) == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert _panels(generate(replace(EXPRESSIVE, dimensions=3))) == [(0, 1), (2, 1)]
    assert _panels(generate(replace(EXPRESSIVE, dimensions=1))) == [(0, 0)]


def test_correlated_dimensions_share_a_panel():
    workload = generate(replace(EXPRESSIVE, correlation="positive", pairs=2))
    pairs = [tuple(pair) for pair in workload.description["drawn"]["pairs"]]
    panels = _panels(workload)
    assert panels[:2] == pairs
    assert sorted(d for panel in panels for d in panel) == list(range(8))
