"""`pleroma backup` and `pleroma restore`: the folder of a controller as one file, and back."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pleroma.cli.options import JsonFlag
from pleroma.cli.output import out, show_json
from pleroma.errors import SetupError


def backup(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a controller or a broker.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file, like pleroma-2026-11-16.tar.gz.")],
    json: JsonFlag = False,
) -> None:
    """Write all that a controller knows into one file, also while it runs.

    The file has the log, the administrator's token and the keys, so only its owner can read it. A lake is not in it.
    """
    from pleroma.control.state_backup import back_up

    if not file.resolve().parent.is_dir():
        raise SetupError(f"the folder {file.resolve().parent} does not exist", field=str(file))
    made = back_up(folder, file)
    size = file.stat().st_size
    if json:
        show_json({"file": str(file), "bytes": size, "position": made.position, "files": list(made.files)})
        return
    out.print(f"{file}: {made.position} entries of the log, {', '.join(made.files)}; {size:,} bytes", soft_wrap=True)


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `pleroma backup` has written.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="An empty folder, or one that is not there yet.")],
    json: JsonFlag = False,
) -> None:
    """Put a backup into an empty folder, and check what a controller would start from.

    What was accepted after the backup was made is not in it: programs that run register again by themselves.
    """
    from pleroma.control.state_backup import put_back
    from pleroma.control.state_check import check_state

    made = put_back(file, folder)
    faults = [each for each in check_state(folder, ()) if each.is_fault]
    if json:
        show_json(
            {"folder": str(folder), "position": made.position, "made": made.made, "faults": [*map(asdict, faults)]}
        )
    else:
        out.print(f"{folder}: {made.position} entries of the log, as they were at {made.made}", soft_wrap=True)
        for each in faults:
            out.print(f"{each.part}: {each.text}", soft_wrap=True, markup=False)
    if faults:
        raise typer.Exit(1)
