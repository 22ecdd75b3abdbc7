"""How commands are told of rights and of how long tokens last, and how they hand out tokens.

A token goes into a file that only its owner can read, or is shown if that is asked for: what is on a screen or in a
pipe may stay there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from pleroma.cli.options import check_file
from pleroma.cli.output import out, show_json
from pleroma.errors import SetupError
from pleroma.private_file import write_private

PublishRights = Annotated[
    list[str] | None,
    typer.Option(
        "--publish", metavar="SCHEMA[=FILTER]", help="May publish this; '*' for all schemas. May be repeated."
    ),
]
ReadRights = Annotated[
    list[str] | None,
    typer.Option("--read", metavar="SCHEMA[=FILTER]", help="May read this; '*' for all schemas. May be repeated."),
]
LostPublishRights = Annotated[
    list[str] | None, typer.Option("--publish", metavar="SCHEMA", help="The right to publish this. May be repeated.")
]
LostReadRights = Annotated[
    list[str] | None, typer.Option("--read", metavar="SCHEMA", help="The right to read this. May be repeated.")
]
ExpiresIn = Annotated[
    str | None, typer.Option(metavar="TIME", help="The token ends after this: 90d, 12h, 30m or seconds.")
]
ExpiresAt = Annotated[str | None, typer.Option(metavar="INSTANT", help="Or at this instant: 2030-01-01T00:00:00Z.")]
NewTokenFile = Annotated[Path | None, typer.Option("--token-file", help="Write the token here, for you alone to read.")]
ShowToken = Annotated[bool, typer.Option("--show-token", help="Print the token.")]

_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_UNIT_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def rights(given: Iterable[str] | None) -> dict[str, str]:
    """`SCHEMA=FILTER` as the API has it; a schema alone is all of it."""
    parts = (each.partition("=") for each in given or ())
    return {schema.strip(): wanted.strip() or "true" for schema, _, wanted in parts}


def lost_rights(given: Iterable[str] | None) -> dict[str, None]:
    return {schema.strip(): None for schema in given or ()}


def seconds(option: str, text: str) -> float:
    """A time as 90d, 12h, 30m, 45s or 45."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise SetupError("is a time as 90d, 12h, 30m or 45s", field=option, value=text)
    return float(found[1]) * _UNIT_SECONDS[found[2]]


def token_life(expires_in: str | None, expires_at: str | None) -> dict[str, Any]:
    """What the API is told about the end of a token."""
    if expires_in is not None and expires_at is not None:
        raise SetupError("give one of --expires-in and --expires-at", field="--expires-at", value=expires_at)
    if expires_in is not None:
        return {"expires_in": seconds("--expires-in", expires_in)}
    return {} if expires_at is None else {"expires_at": expires_at}


def check_token_place(token_file: Path | None, *, show: bool, is_kept: bool = False) -> None:
    """Refuse to have a token made that nobody would get."""
    check_file("--token-file", token_file)
    if token_file is None and not show and not is_kept:
        raise SetupError("say where the token goes: --token-file FILE, or --show-token", field="--token-file")


def hand_out(
    answer: dict[str, Any], token_file: Path | None, *, show: bool, as_json: bool, kept: Iterable[str] = ()
) -> None:
    """Give the token in an answer to whoever asked for it, and say where it is."""
    token = answer["token"]
    places = [str(each) for each in kept]
    if token_file is not None:
        write_private(token_file, token)
        places.append(str(token_file))
    said = {name: value for name, value in answer.items() if name != "token"} | {"token_in": places}
    if as_json:
        show_json(said | ({"token": token} if show else {}))
        return
    ends = f", ends at {answer['expires_at']}" if answer["expires_at"] else ""
    where = f" is in {', '.join(places)}" if places else " is shown this once"
    out.print(f"the token of {answer['name']}{where}{ends}", markup=False, soft_wrap=True)
    if show:
        out.print(token, markup=False, soft_wrap=True)


def listed_rights(given: dict[str, str]) -> str:
    """Rights for a cell of a table: a schema alone is all of it."""
    return "\n".join(schema if text == "true" else f"{schema}: {text}" for schema, text in given.items())


def show_withdrawn(withdrawn: dict[str, Any]) -> None:
    """What was withdrawn with rights, if anything was."""
    if withdrawn["count"]:
        first = ", ".join(withdrawn["first"])
        more = ", ..." if withdrawn["count"] > len(withdrawn["first"]) else ""
        out.print(f"withdrawn: {withdrawn['count']:,} registrations ({first}{more})", markup=False, soft_wrap=True)
