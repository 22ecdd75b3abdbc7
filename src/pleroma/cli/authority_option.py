"""`--ca FILE`: the authority of a controller that speaks HTTPS, for every command that talks to one.

Commands open their connections in many places, some in other processes. All of them read the variable PLEROMA_CA, so
the option sets it.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from functools import wraps
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

import typer

from pleroma.wire.api_terms import CA_VARIABLE

_ADDRESSES = {"url", "upstream"}
"""A command with one of these options talks to a controller."""

CaOption = Annotated[
    Path | None,
    typer.Option("--ca", envvar=CA_VARIABLE, help="With https://: who signed the controller's certificate (PEM)."),
]


def offer_authority(app: typer.Typer) -> None:
    """Give `--ca` to all commands of an application, and of its groups, that talk to a controller."""
    for command in app.registered_commands:
        if command.callback is not None:
            command.callback = _with_authority(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            offer_authority(group.typer_instance)


def _with_authority(command: Callable[..., None]) -> Callable[..., None]:
    signature = inspect.signature(command, eval_str=True)
    if not _ADDRESSES & signature.parameters.keys() or "ca_file" in signature.parameters:
        return command  # it talks to nobody, or saves for later who is trusted

    @wraps(command)
    def trusting(*arguments: Any, ca: Path | None, **given: Any) -> None:
        if ca is not None:
            os.environ[CA_VARIABLE] = str(ca)
        command(*arguments, **given)

    option = Parameter("ca", Parameter.KEYWORD_ONLY, default=None, annotation=CaOption)
    trusting.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), option]
    )
    trusting.__annotations__ = {each.name: each.annotation for each in (*signature.parameters.values(), option)}
    return trusting
