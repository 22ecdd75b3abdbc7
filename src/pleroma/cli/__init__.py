"""The `pleroma` command. Commands import what they need when they run, so that help and small jobs start at once."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        import typer  # noqa: F401
    except ModuleNotFoundError:
        sys.exit("error: the pleroma command needs more than a sensor has; install pleroma[controller]")
    from pleroma.cli.command_tree import app
    from pleroma.cli.output import one_line_errors

    with one_line_errors():
        sys.exit(app(prog_name="pleroma", standalone_mode=False))


__all__ = ["main"]
