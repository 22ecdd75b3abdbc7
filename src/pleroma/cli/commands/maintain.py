"""`pleroma pipeline maintain`: tidy a lake up, as the controller does at quiet moments."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from pleroma.cli.options import JsonFlag, LakeArgument
from pleroma.cli.output import progress, show_json, show_table
from pleroma.errors import LakeError


def maintain(
    lake: LakeArgument,
    keep: Annotated[
        float, typer.Option(min=0, metavar="DAYS", help="Events, reports and ended subscriptions that are older go.")
    ] = 30.0,
    json: JsonFlag = False,
) -> None:
    """Remove what is too old, merge small files, and remove files nobody needs.

    Controllers and other processes may land and read meanwhile. Merged files stay for 12 hours for those who read them.
    """
    from pleroma.pipeline.lake.lake import Lake
    from pleroma.pipeline.lake.maintenance import maintain as tidied

    opened = Lake.at(lake)
    if not opened.schemas():
        raise LakeError("there is no lake here, or an empty one", field="lake", value=lake)
    with progress("tidying up", 1) as advance:
        result = tidied(opened, keep, advance=advance)
    if json:
        show_json(asdict(result) | {"failed": [each._asdict() for each in result.failed]})
    else:
        rows = [("files merged", result.merged), ("files removed", result.removed)]
        rows += [("rows expired", result.expired), ("subscriptions settled", result.settled)]
        show_table("", ("what", "how many"), rows)
        if result.failed:
            show_table("not done", ("table", "reason"), result.failed)
    if result.failed:
        raise typer.Exit(1)
