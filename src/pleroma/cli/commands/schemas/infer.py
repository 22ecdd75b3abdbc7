"""`pleroma schema infer`: a first schema for a file of data, and what was decided about each column."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pleroma.cli.options import JsonFlag, check_file
from pleroma.cli.output import err, out, show_json, show_table
from pleroma.errors import SetupError


def infer(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A table: .csv, .tsv, .parquet or .jsonl.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the schema here; to standard output, otherwise.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Of the schema; that of the file, otherwise.")] = None,
    margin: Annotated[
        float, typer.Option(min=0.0, max=100.0, help="Of the span of numbers, how much more a domain has on each side.")
    ] = 0.1,
    categories: Annotated[
        int, typer.Option(min=1, max=1000, help="At most so many different texts are a category.")
    ] = 20,
    json: JsonFlag = False,
) -> None:
    """Write a schema with domains for the columns of a table, and say why each is as it is. The file is streamed."""
    check_file("--output", output)
    try:
        from pleroma.workloads.schema_inference import SchemaInference
    except ModuleNotFoundError as error:
        reason = f"reading tables needs {error.name}, which is not installed; please install pleroma[experiments]"
        raise SetupError(reason, field="infer") from None
    from pleroma.content.schema_toml import schema_toml

    found = SchemaInference(margin, categories).infer(data, name or data.name.split(".")[0] or "data")
    comments = {each.attribute.name: each.why for each in found.columns if each.attribute is not None}
    text = schema_toml(found.schema, comments)
    if output is not None:
        output.write_text(text, encoding="utf-8")
    if json:
        decided = [
            {"column": each.column, "attribute": each.attribute and each.attribute.name, "why": each.why}
            for each in found.columns
        ]
        show_json({"schema": found.schema.to_json(), "rows": found.rows, "columns": decided})
        return
    if output is None:
        typer.echo(text, nl=False)
        for each in found.columns:
            err.print(f"{each.column}: {each.why}", markup=False, soft_wrap=True)
        return
    rows = [
        (each.column, each.attribute.kind, each.attribute.describe(), each.why)
        if each.attribute
        else (each.column, "", "", each.why)
        for each in found.columns
    ]
    show_table(f"{found.schema.name}, from {found.rows:,} rows", ("column", "kind", "values", "why"), rows)
    out.print(
        f"{output} is a schema of {len(found.schema)} attributes; look at its bounds, then: pleroma schema {output}",
        markup=False,
        soft_wrap=True,
    )
