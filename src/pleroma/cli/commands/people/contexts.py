"""`pleroma context`: controllers, and who one is there, saved under names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pleroma.cli.options import JsonFlag
from pleroma.cli.output import out, show_json, show_table
from pleroma.errors import SetupError

app = typer.Typer(
    help="Controllers under names: where each is, and with which token one talks to it.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="What the context is called.")]


@app.command()
def add(
    name: Name,
    url: Annotated[str, typer.Option(help="Where the controller listens; of several, with commas between.")],
    token: Annotated[
        str | None, typer.Option(help="The token, or - to read it from standard input; it is kept with the context.")
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="Or the file that the token is in, and stays in.")] = None,
    principal: Annotated[str | None, typer.Option(help="Whose token it is; inband:// and udp:// ask for that.")] = None,
    ca_file: Annotated[
        Path | None, typer.Option(help="Who signed the controller's certificate, if the system does not know (PEM).")
    ] = None,
    use: Annotated[bool, typer.Option("--use", help="Make it the current one, as the first one is anyway.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Also if there is another one of this name.")] = False,
    json: JsonFlag = False,
) -> None:
    """Save a context."""
    from pleroma.client.saved_contexts import SavedContext, SavedContexts, read_token

    if (token is None) == (token_file is None):
        raise SetupError("give --token-file, or --token", field="--token-file")
    if token_file is not None:
        read_token(token_file)
    if ca_file is not None and not ca_file.is_file():
        raise SetupError("there is no such file", field="--ca-file", value=str(ca_file))
    if token == "-":  # noqa: S105
        token = sys.stdin.readline().strip()
        if not token:
            raise SetupError("standard input is empty", field="--token")
    made = SavedContext(url, principal, token, _absolute(token_file), _absolute(ca_file))
    saved = SavedContexts.load()
    if not replace and saved.by_name.get(name, made) != made:
        raise SetupError(f"there is another context {name}; --replace puts this one in its place", field="NAME")
    saved = saved.with_context(name, made)
    saved = saved.using(name) if use else saved
    saved.save()
    _show(saved, [name], as_json=json)


@app.command()
def use(name: Name, json: JsonFlag = False) -> None:
    """Make a context the current one: commands go by it unless they are told otherwise."""
    from pleroma.client.saved_contexts import SavedContexts

    saved = SavedContexts.load().using(name)
    saved.save()
    _show(saved, [name], as_json=json)


@app.command("list")
def list_(json: JsonFlag = False) -> None:
    """All contexts; * is the current one."""
    from pleroma.client.saved_contexts import SavedContexts

    saved = SavedContexts.load()
    _show(saved, list(saved.by_name), as_json=json)


@app.command()
def show(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The current one, otherwise.")] = None,
    json: JsonFlag = False,
) -> None:
    """One context, without its token."""
    from pleroma.client.saved_contexts import SavedContexts

    saved = SavedContexts.load()
    wanted = name or saved.current
    if wanted is None:
        raise SetupError("no context is the current one: `pleroma context use NAME`", field="NAME")
    saved.find(wanted)
    _show(saved, [wanted], as_json=json)


@app.command()
def remove(name: Name, json: JsonFlag = False) -> None:
    """Forget a context. A file with its token stays."""
    from pleroma.client.saved_contexts import SavedContexts

    saved = SavedContexts.load().without(name)
    saved.save()
    if json:
        show_json({"removed": name, "current": saved.current})
    else:
        out.print(f"context {name} is forgotten", markup=False)


def _show(saved: Any, names: list[str], *, as_json: bool) -> None:
    """Contexts with what is known of them; tokens are never shown."""
    shown = [
        {
            "name": name,
            "current": name == saved.current,
            "url": context.url,
            "principal": context.principal,
            "token": "kept here" if context.token_file is None else context.token_file,
            "ca_file": context.ca_file,
        }
        for name, context in ((name, saved.by_name[name]) for name in names)
    ]
    if as_json:
        show_json({"contexts": shown})
        return
    rows = [("*" if each["current"] else "", *(each[name] or "" for name in _COLUMNS)) for each in shown]
    show_table("contexts", ("", *_COLUMNS), rows)


_COLUMNS = ("name", "url", "principal", "token", "ca_file")


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.resolve())
