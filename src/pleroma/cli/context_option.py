"""`--context NAME`: the controller, principal and token of a saved context, for every command that talks to one.

What a command is told goes before what is saved: its options, then `--context`, then the environment (PLEROMA_URL,
PLEROMA_TOKEN, PLEROMA_CONTEXT), then the current context, then the defaults. The token of a context goes to the
controller of that context alone: if a URL or a token is given otherwise, the current context is left aside.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection
from functools import wraps
from inspect import Parameter
from typing import Annotated, Any

import typer

from pleroma.client.saved_contexts import SavedContext, SavedContexts
from pleroma.errors import SetupError
from pleroma.wire.api_terms import CA_VARIABLE

_TOLD = ("url", "token", "token_file")
"""Options that say which controller, or with which token. A command takes a context if it can do without the first and
has the second."""

ContextOption = Annotated[
    str | None,
    typer.Option("--context", envvar="PLEROMA_CONTEXT", help="A saved context (see `pleroma context`)."),
]


def offer_contexts(app: typer.Typer) -> None:
    """Give `--context` to all commands of an application, and of its groups, that talk to a controller."""
    for command in app.registered_commands:
        if command.callback is not None:
            command.callback = _with_context(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            offer_contexts(group.typer_instance)


def _with_context(command: Callable[..., None]) -> Callable[..., None]:
    signature = inspect.signature(command, eval_str=True)
    own = signature.parameters
    if not {"url", "token"} <= own.keys() or own["url"].default is Parameter.empty:
        return command
    known = next((name for name, each in own.items() if each.annotation is typer.Context), None)
    is_optional = own["url"].default is None  # the command does something without a controller, too

    @wraps(command)
    def in_context(*arguments: Any, saved_context: str | None, **given: Any) -> None:
        typer_context = given[known] if known is not None else given.pop("typer_context")
        sources = {name: _source(typer_context, name) for name in ("saved_context", "principal", *_TOLD)}
        chosen = _chosen(saved_context, sources, is_optional=is_optional)
        if chosen is not None:
            given |= _of_context(chosen, own.keys(), {name for name in sources if sources[name] == "COMMANDLINE"})
        command(*arguments, **given)

    more = [Parameter("saved_context", Parameter.KEYWORD_ONLY, default=None, annotation=ContextOption)]
    if known is None:
        more.append(Parameter("typer_context", Parameter.KEYWORD_ONLY, annotation=typer.Context))
    parameters = [*(each.replace(kind=Parameter.KEYWORD_ONLY) for each in own.values()), *more]
    in_context.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    in_context.__annotations__ = {each.name: each.annotation for each in parameters}
    return in_context


def _source(typer_context: typer.Context, name: str) -> str:
    """Where an option's value comes from: COMMANDLINE, ENVIRONMENT or something else."""
    source = typer_context.get_parameter_source(name)
    return "DEFAULT" if source is None else source.name


def _chosen(name: str | None, sources: dict[str, str], *, is_optional: bool) -> SavedContext | None:
    """The context that a command goes by; None if it goes by its options, the environment or the defaults."""
    told = {sources[each] for each in _TOLD}
    if name and sources["saved_context"] == "COMMANDLINE":
        if sources["url"] == "COMMANDLINE":
            raise SetupError("a context names the controller: give --url or --context", field="--context", value=name)
        return SavedContexts.load().find(name)
    if told & {"COMMANDLINE", "ENVIRONMENT"} or is_optional:
        return None
    saved = SavedContexts.load()
    current = name or saved.current
    return None if current is None else saved.find(current)


def _of_context(context: SavedContext, options: Collection[str], told: set[str]) -> dict[str, Any]:
    """What a command is called with for a context, except for the options that were given on the command line."""
    if context.ca_file is not None:
        os.environ.setdefault(CA_VARIABLE, context.ca_file)
    given: dict[str, Any] = {"url": context.url}
    if not told & {"token", "token_file"}:
        given["token"] = context.read_token()
        if "token_file" in options:
            given["token_file"] = None
    if "principal" in options and "principal" not in told and context.principal is not None:
        given["principal"] = context.principal
    return given
