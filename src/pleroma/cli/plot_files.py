"""Where the pictures of a command go: in which formats, and whether with the numbers behind them.

A command draws what its `--plot` names, one file or a folder of files. The folder is made before the work begins, so
that nobody waits for a picture that cannot be written.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pleroma.cli.options import listed
from pleroma.cli.output import out
from pleroma.errors import SetupError, UnknownName

if TYPE_CHECKING:
    from pleroma.cli.pictures.picture import Picture

PLOT_FORMATS = ("png", "svg", "pdf")


@dataclass(frozen=True, slots=True)
class PlotFiles:
    """The files of one command's pictures."""

    folder: Path
    name: str | None
    """Of the only picture; None if each picture has a name of its own."""
    formats: tuple[str, ...]
    has_csv: bool

    def write(self, picture: Picture, name: str = "") -> list[Path]:
        """Write a picture in all formats, its numbers too if they are wanted; the paths of all files."""
        from pleroma.cli.pictures.figure_style import save_figure

        stem = self.folder / (self.name or name)
        paths = [stem.with_name(f"{stem.name}.{each}") for each in self.formats]
        for path in paths:
            save_figure(picture.figure, path)
        if self.has_csv:
            paths.append(stem.with_name(f"{stem.name}.csv"))
            with paths[-1].open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([picture.columns, *picture.rows])
        return paths


@dataclass(frozen=True, slots=True)
class PlotFormats:
    """How pictures are written."""

    format: Annotated[
        str | None, typer.Option(help="png, svg or pdf, or several: pdf,svg. As --plot ends, or png, otherwise.")
    ] = None
    csv: Annotated[bool, typer.Option("--csv", help="Write the numbers of a picture beside it, as CSV.")] = False

    def at_file(self, plot: Path | None) -> PlotFiles | None:
        """For a command with one picture, which `--plot` names."""
        if plot is None:
            self._check_unused()
            return None
        ending = plot.suffix.lower().removeprefix(".")
        if ending and ending not in PLOT_FORMATS:
            raise SetupError(
                f"a picture ends in .png, .svg or .pdf, not {plot.name!r}", field="--plot", value=str(plot)
            )
        return PlotFiles(_made(plot.parent), plot.stem, self._formats(ending or "png"), self.csv)

    def in_folder(self, plot: Path | None) -> PlotFiles | None:
        """For a command with several pictures, which go into the folder that `--plot` names."""
        if plot is None:
            self._check_unused()
            return None
        return PlotFiles(_made(plot), None, self._formats("png"), self.csv)

    def _check_unused(self) -> None:
        if self.format is not None or self.csv:
            raise SetupError("says how a picture is written: give --plot as well", field="--format or --csv")

    def _formats(self, usual: str) -> tuple[str, ...]:
        wanted = (usual,) if self.format is None else listed(self.format.lower())
        for each in wanted:
            if each not in PLOT_FORMATS:
                raise UnknownName("format", each, PLOT_FORMATS, field="--format")
        if not wanted:
            raise SetupError("names no format", field="--format", value=self.format)
        return tuple(dict.fromkeys(wanted))


def plots_told(paths: Sequence[Path]) -> dict[str, Any]:
    """What `--json` says of written pictures."""
    return {"plots": list(map(str, paths))} if paths else {}


def say_written(paths: Sequence[Path]) -> None:
    for path in paths:
        out.print(f"wrote {path}", markup=False, soft_wrap=True)


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise SetupError(f"{folder} is not a folder", field="--plot", value=str(folder)) from None
    return folder
