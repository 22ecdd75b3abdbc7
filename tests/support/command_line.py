"""The command line as a parser: whether a command is one that there is, without running it."""

from collections.abc import Sequence

import typer
from typer.core import TyperGroup

from pleroma.cli.command_tree import app

PROGRAM = typer.main.get_command(app)


def understood(arguments: Sequence[str]) -> None:
    """Have a command read what follows `pleroma`; raises an error if there is no such command or option."""
    here, command, rest = typer.Context(PROGRAM, info_name="pleroma"), PROGRAM, list(arguments)
    while isinstance(command, TyperGroup):
        _, found, rest = command.resolve_command(here, rest)
        assert found is not None
        command = found
    command.make_context(command.name, rest, parent=here)
