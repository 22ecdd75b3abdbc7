"""`pleroma principal`: who may do what, and their tokens."""

from __future__ import annotations

from enum import StrEnum
from itertools import islice
from typing import Annotated, Any

import typer

from pleroma.cli.kept_tokens import KeptToken
from pleroma.cli.options import JsonFlag
from pleroma.cli.output import out, show_json, show_table
from pleroma.cli.remote import DEFAULT_URL, TokenOption, UrlOption, find_token, remote_api, segment
from pleroma.cli.rights_options import (
    ExpiresAt,
    ExpiresIn,
    LostPublishRights,
    LostReadRights,
    NewTokenFile,
    PublishRights,
    ReadRights,
    ShowToken,
    check_token_place,
    hand_out,
    listed_rights,
    lost_rights,
    rights,
    seconds,
    show_withdrawn,
    token_life,
)
from pleroma.errors import SetupError

app = typer.Typer(help="Who may publish and read what, and their tokens.", no_args_is_help=True)

SHOWN_PRINCIPALS = 100

Name = Annotated[str, typer.Argument(metavar="NAME", help="The principal.")]
Subscriptions = Annotated[int | None, typer.Option(min=0, help="At most so many subscriptions.")]
Boxes = Annotated[int | None, typer.Option(min=0, help="At most so many boxes in the filters of all registrations.")]


class PrincipalRole(StrEnum):
    ADMIN = "admin"
    PUBLISHER = "publisher"
    SUBSCRIBER = "subscriber"
    BOTH = "both"
    TUNER = "tuner"


@app.command()
def add(
    name: Name,
    role: Annotated[PrincipalRole, typer.Option(help="What it may do at all.")] = PrincipalRole.BOTH,
    publish: PublishRights = None,
    read: ReadRights = None,
    group: Annotated[list[str] | None, typer.Option(help="Has the rights of this group, too. May be repeated.")] = None,
    subscriptions: Subscriptions = None,
    boxes: Boxes = None,
    expires_in: ExpiresIn = None,
    expires_at: ExpiresAt = None,
    new_token_file: NewTokenFile = None,
    show_token: ShowToken = False,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    json: JsonFlag = False,
) -> None:
    """Create a principal; its token is written to a file, or shown if you ask for that."""
    check_token_place(new_token_file, show=show_token)
    body = {
        "name": name,
        "role": role.value,
        "publish": rights(publish),
        "read": rights(read),
        "groups": group or [],
        "subscriptions": subscriptions,
        "boxes": boxes,
    }
    with remote_api(url, token) as remote:
        answer = remote.ask("POST", "/v1/principals", body | token_life(expires_in, expires_at))
    hand_out(answer, new_token_file, show=show_token, as_json=json)


@app.command("list")
def list_(
    group: Annotated[str | None, typer.Option(help="Only the members of this group.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Show at most so many.")] = SHOWN_PRINCIPALS,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    json: JsonFlag = False,
) -> None:
    """All principals."""
    wanted = {} if group is None else {"group": group}
    with remote_api(url, token) as remote:
        found = list(islice(remote.items("/v1/principals", **wanted), limit))
    if json:
        show_json({"principals": found})
    else:
        _show_table("principals", found)


@app.command()
def show(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Yourself, if not given.")] = None,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    json: JsonFlag = False,
) -> None:
    """One principal, with what it may do by its groups; without a name the one whose token this is."""
    with remote_api(url, token) as remote:
        found = remote.get("/v1/me" if name is None else f"/v1/principals/{segment(name)}")
    if json:
        show_json(found)
        return
    _show_table("", [found])
    sides = [(side, schema, text) for side, given in found["rights"].items() for schema, text in given.items()]
    show_table("rights, with those of groups", ("may", "schema", "filter"), sides)


@app.command()
def grant(
    name: Name,
    publish: PublishRights = None,
    read: ReadRights = None,
    group: Annotated[list[str] | None, typer.Option(help="Join this group. May be repeated.")] = None,
    role: Annotated[PrincipalRole | None, typer.Option(help="What it may do at all.")] = None,
    subscriptions: Subscriptions = None,
    boxes: Boxes = None,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    json: JsonFlag = False,
) -> None:
    """Give a principal rights, groups or limits. A right on a schema takes the place of the one before."""
    change: dict[str, Any] = {"publish": rights(publish), "read": rights(read)}
    change["groups"] = dict.fromkeys(group or (), True)
    given = {"role": None if role is None else role.value, "subscriptions": subscriptions, "boxes": boxes}
    _change(name, change | {field: value for field, value in given.items() if value is not None}, url, token, json=json)


@app.command()
def revoke(
    name: Name,
    publish: LostPublishRights = None,
    read: LostReadRights = None,
    group: Annotated[list[str] | None, typer.Option(help="Leave this group. May be repeated.")] = None,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    json: JsonFlag = False,
) -> None:
    """Take rights or groups from a principal. What it registered by them is withdrawn at once."""
    change = {"publish": lost_rights(publish), "read": lost_rights(read), "groups": dict.fromkeys(group or (), False)}
    _change(name, change, url, token, json=json)


@app.command()
def rotate(
    name: Name,
    grace: Annotated[
        str | None, typer.Option(metavar="TIME", help="The token before stays good for so long: 10m, 1h, ...")
    ] = None,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Withdraw all it registered: the token may be in wrong hands.")
    ] = False,
    expires_in: ExpiresIn = None,
    expires_at: ExpiresAt = None,
    new_token_file: NewTokenFile = None,
    show_token: ShowToken = False,
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    json: JsonFlag = False,
) -> None:
    """Give a principal another token. The one before ends at once, or after a while (--grace).

    Your own token is replaced wherever this machine keeps it: in .pleroma/admin.token and in contexts.
    """
    body: dict[str, Any] = token_life(expires_in, expires_at) | {"withdraw": withdraw}
    if grace is not None:
        body["grace"] = seconds("--grace", grace)
    used = find_token(token)
    with remote_api(url, used) as remote:
        is_own = remote.get("/v1/me")["name"] == name
        kept = KeptToken.find(used) if is_own else KeptToken((), ())
        check_token_place(new_token_file, show=show_token, is_kept=bool(kept.places))
        answer = remote.ask("POST", f"/v1/principals/{segment(name)}/token", body)
    kept.exchange(answer["token"])
    hand_out(answer, new_token_file, show=show_token, as_json=json, kept=kept.places)
    if not json:
        show_withdrawn(answer["withdrawn"])


@app.command()
def remove(name: Name, url: UrlOption = DEFAULT_URL, token: TokenOption = None, json: JsonFlag = False) -> None:
    """Remove a principal, and withdraw all that it registered."""
    with remote_api(url, token) as remote:
        remote.ask("DELETE", f"/v1/principals/{segment(name)}")
    if json:
        show_json({"removed": name})
    else:
        out.print(f"{name} is removed, and all that it registered", markup=False)


def _change(name: str, change: dict[str, Any], url: str, token: str | None, *, json: bool) -> None:
    if not any(change.values()) and not {"role", "subscriptions", "boxes"} & change.keys():
        raise SetupError("say what: --publish, --read, --group, ...", field="--read")
    with remote_api(url, token) as remote:
        answer = remote.ask("PATCH", f"/v1/principals/{segment(name)}", change)
    if json:
        show_json(answer)
        return
    _show_table("", [answer])
    show_withdrawn(answer["withdrawn"])


def _show_table(title: str, found: list[dict[str, Any]]) -> None:
    rows = [
        (
            each["name"],
            each["role"],
            listed_rights(each["publish"]),
            listed_rights(each["read"]),
            ", ".join(each["groups"]),
            "ended" if each["expired"] else each["expires_at"] or "never",
        )
        for each in found
    ]
    show_table(title, ("name", "role", "publish", "read", "groups", "token ends"), rows)
