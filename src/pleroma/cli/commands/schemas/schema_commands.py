"""`pleroma schema`: give the controller a schema or a later version of one, see which it has, and remove one.

`pleroma schema FILE` is short for `pleroma schema add FILE`, and may be run again: a schema that is there is a success.
"""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from pleroma.cli.commands.schemas.infer import infer
from pleroma.cli.options import JsonFlag
from pleroma.cli.output import out, show_json, show_table
from pleroma.cli.remote import DEFAULT_URL, TokenOption, UrlOption, remote_api, segment
from pleroma.content import Schema
from pleroma.content.schema_difference import schema_differences
from pleroma.content.schema_versions import obstacles
from pleroma.errors import RequestRefused, SchemaError

if TYPE_CHECKING:
    from pleroma.client.blocking_api import BlockingApi

_HELP = ("-h", "--help")


class FileOrCommand(TyperGroup):
    """A group that takes what is none of its commands for the argument of `add`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self._with_command(args))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        return super().resolve_command(ctx, self._with_command(args))

    def _with_command(self, args: list[str]) -> list[str]:
        return args if args and (args[0] in self.commands or args[0] in _HELP) else ["add", *args]


app = typer.Typer(
    cls=FileOrCommand,
    help="The schemas of a controller. `pleroma schema FILE` gives it one, `pleroma schema` lists them.",
)
app.command()(infer)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="As `pleroma schema list` names it.")]


@app.command()
def add(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A schema to give the controller (.toml or .json).")
    ] = None,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    json: JsonFlag = False,
) -> None:
    """Give the controller a schema, unless it has it already. A different one of the same name is an error."""
    if file is None:
        list_schemas(url, token, json)
        return
    schema = Schema.load(file)
    with remote_api(url, token) as remote:
        created = _create(remote, schema)
        there = remote.get(_path(schema.name))
        earlier = [Schema.from_json(each) for each in remote.get(f"{_path(schema.name)}/plan")["earlier"]]
    last = Schema.from_json(there["schema"])
    if schema not in (*earlier, last):
        differences = "; ".join(schema_differences(last, schema))
        mend = f"give this one another name, or remove that one (pleroma schema rm {schema.name}) when it is not in use"
        if not obstacles(last, schema):
            mend = f"make it the next version (pleroma schema extend {file}), {mend}"
        reason = f"the controller has another schema {schema.name!r}: {differences}; {mend}"
        raise SchemaError(reason, field=str(file), value=schema.name)
    if json:
        show_json({"schema": there, "created": created})
        return
    done = "is created" if created else f"is there already, as in {file}"
    if schema in earlier:
        done = f"is there already: {file} is version {earlier.index(schema) + 1} of {there['version']}"
    out.print(f"{schema.name} {done}: number {there['number']}, prefix {there['prefix']}", markup=False)


@app.command()
def extend(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The schema with wider domains, or more attributes.")],
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    json: JsonFlag = False,
) -> None:
    """Go over to a later version of a schema, while whoever publishes or subscribes goes on.

    Domains may become wider, and optional attributes come behind the others.
    """
    schema = Schema.load(file)
    with remote_api(url, token) as remote:
        done = remote.ask("PUT", _path(schema.name), {"schema": schema.to_json()})
    if json:
        show_json(done)
        return
    out.print(f"{schema.name} has version {done['version']}, as in {file}; plan {done['epoch']}", markup=False)


def _create(remote: BlockingApi, schema: Schema) -> bool:
    """Whether the schema was created; False if there is one of its name."""
    try:
        remote.ask("POST", "/v1/schemas", {"schema": schema.to_json()})
    except RequestRefused as refused:
        if refused.status != HTTPStatus.CONFLICT or refused.code != "already_there":
            raise
        return False
    return True


@app.command("list")
def list_schemas(url: UrlOption = DEFAULT_URL, token: TokenOption = None, json: JsonFlag = False) -> None:
    """The schemas that the controller has."""
    with remote_api(url, token) as remote:
        schemas = list(remote.items("/v1/schemas"))
    if json:
        show_json({"schemas": schemas})
    else:
        show_schemas(schemas)


def show_schemas(schemas: list[dict[str, Any]]) -> None:
    rows = []
    for each in schemas:
        names = ", ".join(Schema.from_json(each["schema"]).names)
        rows.append((each["schema"]["name"], each["number"], each["prefix"], each["epoch"], names))
    show_table("schemas", ("name", "number", "prefix", "epoch", "attributes"), rows)


@app.command()
def show(name: NameArgument, url: UrlOption = DEFAULT_URL, token: TokenOption = None, json: JsonFlag = False) -> None:
    """The attributes of one schema, and its share of the addresses."""
    with remote_api(url, token) as remote:
        found = remote.get(_path(name))
    if json:
        show_json(found)
        return
    told = "version {version}, number {number}, prefix {prefix}, fingerprint {fingerprint:#06x}, plan {epoch}"
    out.print(told.format(**found))
    show_attributes(Schema.from_json(found["schema"]))


def show_attributes(schema: Schema) -> None:
    rows = [(each.name, each.kind, each.describe(), "optional" if each.optional else "") for each in schema.attributes]
    show_table(schema.name, ("attribute", "kind", "values", ""), rows)


@app.command()
def rm(name: NameArgument, url: UrlOption = DEFAULT_URL, token: TokenOption = None, json: JsonFlag = False) -> None:
    """Remove a schema that nothing is registered of. Rights of principals that name it go with it."""
    with remote_api(url, token) as remote:
        removed = remote.ask("DELETE", _path(name))
    if json:
        show_json(removed)
        return
    rights = ", ".join(removed["principals"])
    out.print(f"{name} is removed" + (f"; rights that named it are gone from {rights}" if rights else ""), markup=False)


def _path(name: str) -> str:
    return f"/v1/schemas/{segment(name)}"
