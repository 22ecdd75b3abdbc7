"""How commands find and talk to a running controller: its address, a token, and one line when it says no."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import quote

import typer

from pleroma.errors import SetupError

STATE_FOLDER = Path(".pleroma")
"""Where `pleroma up` keeps its log and the administrator's token, unless told."""
DEFAULT_URL = "http://127.0.0.1:8470"
ITEMS_PER_PAGE = 1000

UrlOption = Annotated[str, typer.Option(envvar="PLEROMA_URL", help="Where the controller listens.")]
TokenOption = Annotated[
    str | None,
    typer.Option(envvar="PLEROMA_TOKEN", help="Your token; without one, that of .pleroma/admin.token is used."),
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
        reason = f"no token: give --token, set PLEROMA_TOKEN, or run this where `pleroma up` left {path}"
        raise SetupError(reason, field="--token") from None


class Remote:
    """The controller's API for commands that ask a few things and stop."""

    def __init__(self, url: str, token: str | None) -> None:
        import httpx

        self._http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {find_token(token)}"},
            timeout=30.0,
            verify=url[:5] == "https",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, path: str, **parameters: Any) -> Any:
        return self.ask("GET", path, parameters=parameters)

    def ask(self, method: str, path: str, body: Any = None, parameters: Mapping[str, Any] | None = None) -> Any:
        import httpx

        from pleroma.client.api import answered
        from pleroma.errors import ControllerAway

        try:
            response = self._http.request(method, path, json=body, params=parameters)
        except (httpx.TransportError, httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            reason = f"no controller answers at {self._http.base_url}: {error or type(error).__name__}"
            raise ControllerAway(reason, field="--url") from None
        return answered(response, str(self._http.base_url))

    def pages(self, path: str, **parameters: Any) -> Iterator[dict[str, Any]]:
        """All items of a list, page by page."""
        after: str | None = None
        while True:
            page = self.get(path, limit=ITEMS_PER_PAGE, **parameters, **({} if after is None else {"after": after}))
            yield from page["items"]
            after = page["next"]
            if after is None:
                return


def segment(name: str) -> str:
    """A name as part of a path."""
    return quote(name, safe="")
