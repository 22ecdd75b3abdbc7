"""The picture of a network: a cable has the colour that the bar beside it gives to its share of the events."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_rgba

from pleroma.cli.pictures.figure_style import FAINT
from pleroma.cli.pictures.network_picture import draw_use
from pleroma.index import GridIndex
from pleroma.routing import build
from pleroma.switches.simulated.simulation import simulate
from pleroma.workloads import EXPRESSIVE, generate


@pytest.fixture(scope="module")
def picture():
    workload = generate(replace(EXPRESSIVE, dimensions=3, subscriptions=12, events=300, width=0.2, seed=2))
    return draw_use(simulate(build("testbed"), workload, GridIndex.regular(workload.schema, 12), publishers=1))


def drawn(picture):
    """By what is written on it, the colour of each cable that carries something; and the colours of all others."""
    canvas, _ = picture.figure.axes
    used = [line for line in canvas.lines if line.get_linestyle() == "-"]
    shares = [text.get_text() for text in canvas.texts if text.get_text().endswith("%")]
    unused = {line.get_color() for line in canvas.lines if line not in used}
    return list(zip(shares, (line.get_color() for line in used), strict=True)), unused


def bar_colour(picture, share):
    """What a reader finds beside the number in the bar."""
    colours = picture.figure.axes[1]._colorbar.mappable
    return colours.to_rgba(share)


def test_a_reader_of_the_bar_finds_the_share_that_is_written_on_a_cable(picture):
    cables, unused = drawn(picture)
    assert len({share for share, _ in cables}) > 4
    for share, colour in cables:
        assert np.allclose(to_rgba(colour), bar_colour(picture, int(share[:-1]) / 100), atol=0.03), share
    assert unused == {FAINT}


def test_the_numbers_beside_the_picture_are_those_on_the_cables(picture):
    cables, _ = drawn(picture)
    assert sorted(share for share, _ in cables) == sorted(f"{share:.0%}" for *_, share in picture.rows if share)
    assert len(picture.rows) == 24


def test_cables_are_drawn_from_the_end_that_is_named_first_so_that_pictures_are_the_same(picture):
    canvas, _ = picture.figure.axes
    named = {tuple(text.xy): text.get_text() for text in canvas.texts if not text.get_text().endswith("%")}
    ends = [[named[tuple(end)] for end in line.get_xydata().tolist()] for line in canvas.lines]
    assert len(ends) == 24
    assert ends == [sorted(each) for each in ends]
