"""`pleroma pipeline sweep`: compare the techniques over workloads, subscriptions and bits, on Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from pleroma.cli.commands.watch import listed
from pleroma.cli.output import JsonFlag, MasterOption, progress, show_json, show_table
from pleroma.errors import SetupError


def sweep(
    workloads: Annotated[
        str, typer.Option(help="Kinds of data: uniform, zipfian, correlated, stock.")
    ] = "uniform,zipfian",
    subscriptions: Annotated[str, typer.Option(help="Numbers of subscriptions.")] = "100,400",
    bits: Annotated[str, typer.Option(help="Numbers of bits.")] = "12,23",
    selections: Annotated[
        str | None, typer.Option(help="Ways to select dimensions that are tried: ges,sms; all, otherwise.")
    ] = None,
    splits: Annotated[
        str | None, typer.Option(help="Ways to split that are tried: regular,adaptive; all, otherwise.")
    ] = None,
    members: Annotated[int, typer.Option(min=1, help="At most this many dz per subscription.")] = 32,
    events: Annotated[int, typer.Option(min=2, help="Events of each workload but stock; half of them judge.")] = 10_000,
    seeds: Annotated[int, typer.Option(min=1, help="Go through each scenario so often, with other data.")] = 1,
    best: Annotated[int, typer.Option(min=1, help="Show so many techniques for each scenario; --json has all.")] = 3,
    master: MasterOption = None,
    json: JsonFlag = False,
) -> None:
    """Try all techniques on every combination of workload, number of subscriptions and number of bits.

    Each combination is a job of its own, and they fill the cluster. What is shown is the waste on events that the
    techniques have not seen, and the rules that they take.
    """
    from pleroma.experiments import comparison
    from pleroma.selection.advice import DEFAULT_SELECTIONS, DEFAULT_SPLITS

    compared = comparison.Comparison(
        listed(workloads),
        _numbers("--subscriptions", subscriptions),
        _numbers("--bits", bits),
        DEFAULT_SELECTIONS if selections is None else listed(selections),
        DEFAULT_SPLITS if splits is None else listed(splits),
        members,
        events,
        seeds,
    )
    from pleroma.pipeline.spark_needs import check

    check()
    from pleroma.pipeline.passes.spark_sweep import SparkSweep
    from pleroma.pipeline.spark_session import session

    with progress("scenarios", 1) as advance, session(master, "pleroma sweep") as spark:
        found = compared.run(advance, SparkSweep(spark))
    if json:
        show_json({"scenarios": len(compared.scenarios), "findings": comparison.figures(found)})
        return
    rows = [
        (each.workload, f"{each.subscriptions:,}", each.bits, each.technique, f"{each.waste:.1%}", f"{each.rules:,.0f}")
        for each in comparison.best(found, best)
    ]
    show_table(
        f"{len(compared.scenarios)} scenarios, the best {best} techniques of each",
        ("workload", "subscriptions", "bits", "technique", "waste", "flow entries"),
        rows,
    )


def _numbers(option: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(map(int, listed(text)))
    except ValueError:
        raise SetupError(f"is numbers between commas, like 100,400, not {text}", field=option, value=text) from None
