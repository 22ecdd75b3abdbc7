"""`--https CERT KEY`, and one line for each thing that others can read where a service can be reached."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pleroma.cli.output import err

if TYPE_CHECKING:
    from pleroma.service import CertificateFiles

HttpsOption = Annotated[
    tuple[Path, Path] | None,
    typer.Option(metavar="CERT KEY", help="Speak HTTPS with this certificate; read again when the files change."),
]


def certificate_files(https: tuple[Path, Path] | None) -> CertificateFiles | None:
    from pleroma.service import CertificateFiles

    return None if https is None else CertificateFiles(*https)


def show_what_is_in_clear(host: str, https: tuple[Path, Path] | None, events_at: str | None) -> None:
    """`events_at` is the address at which events or their switches come in; None if they stay on this machine."""
    if https is None and not _is_local(host):
        err.print(f"requests and tokens are in clear at {host}: give --https CERT KEY, or listen on 127.0.0.1")
    if events_at is not None and not _is_local(events_at):
        err.print("events are in clear, unless their schema is encrypted: whoever is on their way can read them")


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
