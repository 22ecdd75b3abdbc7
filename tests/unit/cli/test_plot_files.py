"""Where pictures go: formats, numbers beside them, folders that are made, and what is refused."""

import pytest
import typer
from typer.core import TyperGroup

from pleroma.cli.command_tree import app
from pleroma.cli.pictures.figure_picture import draw_grid, draw_lines
from pleroma.cli.plot_files import PlotFormats, plots_told
from pleroma.errors import SetupError, UnknownName

LINES = {"evs": {2: 0.5, 1: 0.8}, "random": {2: 0.6, 1: 0.9}}


def beginnings(paths):
    return {path.suffix: path.read_bytes()[:4] for path in paths}


def test_a_picture_is_written_in_every_format_asked_for_and_its_folder_is_made(tmp_path):
    files = PlotFormats("pdf,SVG,png").at_file(tmp_path / "not" / "there" / "lines.png")
    written = files.write(draw_lines(LINES, "lines", "dimensions", "waste"))
    assert [path.name for path in written] == ["lines.pdf", "lines.svg", "lines.png"]
    assert beginnings(written) == {".pdf": b"%PDF", ".svg": b"<?xm", ".png": b"\x89PNG"}
    assert plots_told(written) == {"plots": [str(path) for path in written]}


@pytest.mark.parametrize(
    ("name", "formats", "found"),
    [("use.svg", None, ["use.svg"]), ("use", None, ["use.png"]), ("use.png", "pdf", ["use.pdf"])],
)
def test_the_ending_says_the_format_unless_another_is_asked_for(tmp_path, name, formats, found):
    picture = draw_lines(LINES, "lines", "dimensions", "waste")
    assert [path.name for path in PlotFormats(formats).at_file(tmp_path / name).write(picture)] == found


def test_pictures_in_a_folder_have_names_of_their_own_and_numbers_beside_them(tmp_path):
    picture = draw_grid({"star": LINES}, "waste", "rules", "share")
    written = PlotFormats(csv=True).in_folder(tmp_path).write(picture, "frontier")
    assert [path.name for path in written] == ["frontier.png", "frontier.csv"]
    assert written[1].read_text().splitlines() == [
        "panel,line,rules,share", "star,evs,2,0.5", "star,evs,1,0.8", "star,random,2,0.6", "star,random,1,0.9",
    ]  # fmt: skip


@pytest.mark.parametrize("y", ["milliseconds", "seconds, median", "megabytes", "rules added"])
def test_what_is_no_share_is_drawn_in_full_and_without_percent(y):
    (canvas,) = draw_lines({"raw": {10: 0.08, 40: 2.2}, "all": {10: 700.0, 40: 0.5}}, "lines", "rules", y).figure.axes
    low, high = canvas.get_ylim()
    assert 0 < low < 0.08
    assert high > 700
    assert "%" not in canvas.yaxis.get_major_formatter()(1.0, 0)


@pytest.mark.parametrize("y", ["waste at hosts", "share of events", "false-positive rate"])
def test_shares_are_drawn_from_nothing_to_all_of_it(y):
    (canvas,) = draw_lines(LINES, "lines", "dimensions", y).figure.axes
    assert canvas.get_ylim() == (0, 1)
    assert canvas.yaxis.get_major_formatter()(0.5, 0) == "50%"


def test_lines_have_the_spread_of_seeds_and_what_the_paper_says_beside_them():
    published = [("paper, regular", 0.8, 2), ("paper, at best", 0.03, None)]
    picture = draw_lines(LINES, "lines", "dimensions", "waste", (), {"evs": {2: 0.01, 1: 0.02}}, published)
    (canvas,) = picture.figure.axes
    assert len(canvas.containers) == 2
    assert [each.has_yerr for each in canvas.containers] == [True, False]
    legend = {text.get_text() for text in canvas.get_legend().get_texts()}
    assert legend == {"evs", "random", "paper, regular", "paper, at best"}
    assert picture.rows == [
        ("evs", 2, 0.5, 0.01),
        ("evs", 1, 0.8, 0.02),
        ("random", 2, 0.6, ""),
        ("random", 1, 0.9, ""),
        ("paper, regular", 2, 0.8, ""),
        ("paper, at best", "", 0.03, ""),
    ]


@pytest.mark.parametrize(
    ("formats", "plot", "reason"),
    [
        (PlotFormats("gif"), "x.png", "unknown format 'gif'"),
        (PlotFormats(","), "x.png", "names no format"),
        (PlotFormats(), "x.jpeg", "a picture ends in .png, .svg or .pdf"),
        (PlotFormats("png"), None, "give --plot as well"),
        (PlotFormats(csv=True), None, "give --plot as well"),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_work(tmp_path, formats, plot, reason):
    with pytest.raises((SetupError, UnknownName), match=reason):
        formats.at_file(None if plot is None else tmp_path / plot)


def test_a_file_is_no_folder_for_pictures(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(SetupError, match="is not a folder"):
        PlotFormats().in_folder(tmp_path / "taken")
    with pytest.raises(SetupError, match="is not a folder"):
        PlotFormats().at_file(tmp_path / "taken" / "below" / "x.png")


def test_without_a_plot_nothing_is_written():
    assert PlotFormats().at_file(None) is None
    assert PlotFormats().in_folder(None) is None


def options_of(group):
    for each in group.commands.values():
        if isinstance(each, TyperGroup):
            yield from options_of(each)
        else:
            yield each.name, {option for parameter in each.params for option in parameter.opts}


def test_every_command_that_draws_takes_formats_and_writes_numbers():
    drawing = [(name, options) for name, options in options_of(typer.main.get_command(app)) if "--plot" in options]
    assert {name for name, _ in drawing} >= {"audit", "demo", "experiment", "explain", "show", "simulate", "tune"}
    assert not [name for name, options in drawing if not {"--format", "--csv"} <= options]
