"""`pleroma pipeline migrate`: make a lake of Delta tables of one in the old layout."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from pleroma.cli.options import JsonFlag
from pleroma.cli.output import out, progress, show_json, show_table


def migrate(
    old: Annotated[str, typer.Argument(metavar="OLD", help="A lake of the old layout: a folder or a URI.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Where the new lake is, or will be.")],
    json: JsonFlag = False,
) -> None:
    """Land everything that a lake of the old layout has in a new one.

    The old lake stays as it is. A migration that was stopped goes on where it was, and one that is repeated changes
    nothing. Files that cannot be read are named at the end, and in the table `refused`.
    """
    from pleroma.pipeline.lake.lake import Lake
    from pleroma.pipeline.lake.old_layout import OldLake
    from pleroma.pipeline.migration import migrate as landed

    source = OldLake(old)
    with progress("reading files", source.count()) as advance:
        result = landed(source, Lake.at(new), advance)
    figures = asdict(result)
    if json:
        show_json(figures)
        return
    refused = figures.pop("refused")
    show_table("", ("landed", "how many"), figures.items())
    if refused:
        show_table("could not be read", ("file", "reason"), refused.items())
    out.print(f"the lake is at {new}", markup=False, soft_wrap=True)
