"""`pleroma log move`: from one process to many that share a log, and back."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pleroma.cli.options import JsonFlag
from pleroma.cli.output import out, show_json
from pleroma.errors import SetupError

app = typer.Typer(help="The log of a controller: what was accepted, in order.", no_args_is_help=True)

_PLACES = "one of the two is a folder, and the other is written like etcd://127.0.0.1:2379/NAME"


@app.callback()
def _several() -> None:
    """Commands of this branch have names, even while there is one."""


@app.command()
def move(
    old: Annotated[str, typer.Argument(metavar="FROM", help="The folder of a controller, or etcd://HOST:PORT/NAME.")],
    new: Annotated[str, typer.Argument(metavar="TO", help="etcd://HOST:PORT/NAME that is new, or a folder.")],
    json: JsonFlag = False,
) -> None:
    """Move the log of a controller that is stopped, so that several processes share it, or one has it again.

    Registrations, tokens, rules and keys of requests stay as they are, and so do the keys of events: programs that run
    go on. A move that was interrupted is repeated; the old log cannot be used any more.
    """
    from pleroma.control.log.etcd import EtcdAddress
    from pleroma.control.log.etcd.etcd_address import ETCD_SCHEMES
    from pleroma.control.log_move import move_to_folder, move_to_shared
    from pleroma.service.http.forgery.event_keys import EVENT_KEYS_FILE, keep_in, secrets_in

    def is_shared(place: str) -> bool:
        return place.partition("://")[0] in ETCD_SCHEMES

    if is_shared(old) == is_shared(new):
        raise SetupError(_PLACES, field="log")
    if is_shared(new):
        address, folder = EtcdAddress.parse(new), Path(old)
        moved = move_to_shared(folder, address, secrets_in(folder))
        start = f"pleroma up --log {address} --folder {folder}"
    else:
        address, folder = EtcdAddress.parse(old), Path(new)
        moved = move_to_folder(address, folder, lambda log: keep_in(folder, log.known_secret(EVENT_KEYS_FILE)))
        start = f"pleroma up --folder {folder}"
    if json:
        show_json({"log": str(address), "folder": str(folder), **asdict(moved)})
        return
    out.print(f"the log is in {address if is_shared(new) else folder}, up to entry {moved.position}", soft_wrap=True)
    out.print(f"start:  {start}", markup=False, soft_wrap=True)
