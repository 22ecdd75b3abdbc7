"""`pleroma pipeline sweep`: compare the techniques over workloads, subscriptions and bits, on Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from pleroma.cli.options import JsonFlag, Selections, SparkMaster, Splits, grouped, listed
from pleroma.cli.output import progress, show_json, show_table
from pleroma.errors import SetupError

if TYPE_CHECKING:
    from pleroma.experiments.comparison import Comparison


@dataclass(frozen=True, slots=True)
class ScenarioOptions:
    """What is compared: every combination of workload, number of subscriptions and number of bits."""

    workloads: Annotated[str, typer.Option(help="Kinds of data: uniform, zipfian, correlated, stock.")] = (
        "uniform,zipfian"
    )
    subscriptions: Annotated[str, typer.Option(help="Numbers of subscriptions.")] = "100,400"
    bits: Annotated[str, typer.Option(help="Numbers of bits.")] = "12,23"
    selections: Selections = None
    splits: Splits = None
    members: Annotated[int, typer.Option(min=1, help="At most this many dz per subscription.")] = 32
    events: Annotated[int, typer.Option(min=2, help="Events of each workload but stock; half of them judge.")] = 10_000
    seeds: Annotated[int, typer.Option(min=1, help="Go through each scenario so often, with other data.")] = 1

    def comparison(self) -> Comparison:
        from pleroma.experiments.comparison import Comparison
        from pleroma.selection.advice_question import DEFAULT_SELECTIONS, DEFAULT_SPLITS

        return Comparison(
            listed(self.workloads),
            _numbers("--subscriptions", self.subscriptions),
            _numbers("--bits", self.bits),
            DEFAULT_SELECTIONS if self.selections is None else listed(self.selections),
            DEFAULT_SPLITS if self.splits is None else listed(self.splits),
            self.members,
            self.events,
            self.seeds,
        )


@grouped
def sweep(
    *,
    scenarios: ScenarioOptions,
    best: Annotated[int, typer.Option(min=1, help="Show so many techniques for each scenario; --json has all.")] = 3,
    master: SparkMaster = None,
    json: JsonFlag = False,
) -> None:
    """Try all techniques on every combination of workload, number of subscriptions and number of bits.

    Each combination is a job of its own, and they fill the cluster. Shown are the waste at subscriptions, on
    events that the techniques have not seen, and the rules that they take.
    """
    from pleroma.experiments import comparison
    from pleroma.pipeline.passes.spark_sweep import SparkSweep
    from pleroma.pipeline.spark_needs import check
    from pleroma.pipeline.spark_session import session

    compared = scenarios.comparison()
    check()
    with progress("scenarios", 1) as advance, session(master, "pleroma sweep") as spark:
        found = compared.run(advance, SparkSweep(spark))
    if json:
        show_json({"scenarios": len(compared.scenarios), "findings": comparison.figures(found)})
        return
    rows = [
        (each.workload, f"{each.subscriptions:,}", each.bits, each.technique, f"{each.waste:.1%}", f"{each.rules:,.0f}")
        for each in comparison.best(found, best)
    ]
    title = f"{len(compared.scenarios)} scenarios, the best {best} techniques of each"
    show_table(title, ("workload", "subscriptions", "bits", "technique", "waste at subscriptions", "rules"), rows)


def _numbers(option: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(map(int, listed(text)))
    except ValueError:
        raise SetupError(f"is numbers between commas, like 100,400, not {text}", field=option, value=text) from None
