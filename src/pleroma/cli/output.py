"""What commands print: tables for people, one JSON object on the last line for programs, progress on the way."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from pleroma.errors import PleromaError

UNLIMITED_COLUMNS = 160
"""Width of tables in a file or for a program, where lines need not fit a window."""

out = Console(highlight=False, width=None if sys.stdout.isatty() else UNLIMITED_COLUMNS)
err = Console(stderr=True, highlight=False)


def show_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Rows under headings; numbers to the right."""
    rows = list(rows)
    table = Table(title=title or None, title_justify="left", title_style="bold", header_style="bold", pad_edge=False)
    for i, column in enumerate(columns):
        numeric = bool(rows) and all(_is_number(row[i]) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row))
    out.print(table)


def show_json(data: Any) -> None:
    typer.echo(json.dumps(data, ensure_ascii=False, allow_nan=False, default=str))


@contextmanager
def progress(what: str, total: float | None = None) -> Iterator[Callable[[float], None]]:
    """A bar on standard error for work that takes seconds; the yielded function advances it."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(what, total=total)

        def advance(step: float) -> None:
            bar.advance(task, step)

        yield advance


def shortened(text: str, letters: int) -> str:
    """A text in at most so many letters."""
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn what a user can mend into one line and exit code 2."""
    try:
        yield
    except PleromaError as error:
        _stop(str(error))
    except BrokenPipeError:  # whoever reads our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except OSError as error:
        _stop(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except typer.TyperException as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        if "\n" in message.strip():  # a command without arguments: the message is its help
            raise SystemExit(2) from None
        _stop(message.rstrip("."))


def _stop(reason: str) -> NoReturn:
    err.print(f"[red]error:[/red] {_plain(reason)}", soft_wrap=True)
    raise SystemExit(2) from None


def _plain(text: str) -> str:
    return text.replace("[", r"\[")


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return _plain(str(value))
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) or (isinstance(value, str) and value.endswith("%"))
