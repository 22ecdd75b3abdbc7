"""`pleroma group`: rights under a name that many principals have."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pleroma.cli.options import JsonFlag
from pleroma.cli.output import out, show_json, show_table
from pleroma.cli.remote import DEFAULT_URL, TokenOption, UrlOption, remote_api, segment
from pleroma.cli.rights_options import (
    LostPublishRights,
    LostReadRights,
    PublishRights,
    ReadRights,
    listed_rights,
    lost_rights,
    rights,
    show_withdrawn,
)
from pleroma.errors import SetupError

app = typer.Typer(
    help="Rights under a name that many principals have (`pleroma principal grant NAME --group GROUP`).",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(metavar="GROUP", help="The group.")]


@app.command()
def add(
    name: Name,
    publish: PublishRights = None,
    read: ReadRights = None,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    json: JsonFlag = False,
) -> None:
    """Create a group."""
    with remote_api(url, token) as remote:
        made = remote.ask("POST", "/v1/groups", {"name": name, "publish": rights(publish), "read": rights(read)})
    _show([made], made, json=json)


@app.command("list")
def list_(url: UrlOption = DEFAULT_URL, token: TokenOption = None, json: JsonFlag = False) -> None:
    """All groups."""
    with remote_api(url, token) as remote:
        found = list(remote.items("/v1/groups"))
    _show(found, {"groups": found}, json=json)


@app.command()
def show(name: Name, url: UrlOption = DEFAULT_URL, token: TokenOption = None, json: JsonFlag = False) -> None:
    """One group, and who belongs to it."""
    with remote_api(url, token) as remote:
        found = remote.get(f"/v1/groups/{segment(name)}")
        members = [each["name"] for each in remote.items("/v1/principals", group=name)]
    _show([found], found | {"members": members}, json=json)
    if not json:
        out.print(f"members: {', '.join(members) or 'none'}", markup=False, soft_wrap=True)


@app.command()
def grant(
    name: Name,
    publish: PublishRights = None,
    read: ReadRights = None,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    json: JsonFlag = False,
) -> None:
    """Give all members rights. A right on a schema takes the place of the one before."""
    _change(name, {"publish": rights(publish), "read": rights(read)}, url, token, json=json)


@app.command()
def revoke(
    name: Name,
    publish: LostPublishRights = None,
    read: LostReadRights = None,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    json: JsonFlag = False,
) -> None:
    """Take rights from all members. What they registered by them is withdrawn at once."""
    _change(name, {"publish": lost_rights(publish), "read": lost_rights(read)}, url, token, json=json)


@app.command()
def remove(name: Name, url: UrlOption = DEFAULT_URL, token: TokenOption = None, json: JsonFlag = False) -> None:
    """Remove a group. Its members stay, without the rights that they had from it."""
    with remote_api(url, token) as remote:
        answer = remote.ask("DELETE", f"/v1/groups/{segment(name)}")
    if json:
        show_json(answer)
        return
    out.print(f"group {name} is removed", markup=False)
    show_withdrawn(answer["withdrawn"])


def _change(name: str, change: dict[str, Any], url: str, token: str | None, *, json: bool) -> None:
    if not any(change.values()):
        raise SetupError("say what: --publish or --read", field="--read")
    with remote_api(url, token) as remote:
        answer = remote.ask("PATCH", f"/v1/groups/{segment(name)}", change)
    _show([answer], answer, json=json)
    if not json:
        show_withdrawn(answer["withdrawn"])


def _show(found: list[dict[str, Any]], data: Any, *, json: bool) -> None:
    if json:
        show_json(data)
        return
    rows = [
        (each["name"], listed_rights(each["publish"]), listed_rights(each["read"]), each["members"]) for each in found
    ]
    show_table("groups", ("name", "publish", "read", "members"), rows)
