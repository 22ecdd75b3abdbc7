"""How commands find and talk to a running controller: its address, a token, and one line when it says no."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from pleroma.errors import ControllerAway, SetupError

if TYPE_CHECKING:
    from pleroma.client.blocking_api import BlockingApi

STATE_FOLDER = Path(".pleroma")
"""Where `pleroma up` keeps its log and the administrator's token, unless told."""
DEFAULT_URL = "http://127.0.0.1:8470"
COMMAND_ANSWER_SECONDS = 30.0

UrlOption = Annotated[
    str, typer.Option(envvar="PLEROMA_URL", help="Where the controller listens; of several, with commas between.")
]
TokenOption = Annotated[
    str | None,
    typer.Option(envvar="PLEROMA_TOKEN", help="Your token; without one, that of the context or .pleroma/admin.token."),
]
PrincipalOption = Annotated[
    str | None,
    typer.Option(envvar="PLEROMA_PRINCIPAL", help="Whose token it is; inband:// and udp:// ask for that."),
]
HostOption = Annotated[str, typer.Option(help="The host of the network to be at; any lets the controller choose.")]


def find_token(given: str | None) -> str:
    if given:
        return given
    path = STATE_FOLDER / "admin.token"
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        reason = f"no token: use a context, set PLEROMA_TOKEN, or run this where `pleroma up` left {path}"
        raise SetupError(reason, field="--token") from None


@contextmanager
def remote_api(url: str, token: str | None) -> Iterator[BlockingApi]:
    """The API of the controller at `url`. That no controller answers there is an error of the option `--url`."""
    from pleroma.client.blocking_api import BlockingApi  # brings httpx, which takes a while to load

    try:
        with BlockingApi(url, find_token(token), seconds=COMMAND_ANSWER_SECONDS) as api:
            yield api
    except ControllerAway as away:
        raise ControllerAway(away.reason, field="--url") from None


def segment(name: str) -> str:
    """A name as part of a path."""
    return quote(name, safe="")
