"""The tree of commands, and what each is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

import pleroma
from pleroma.cli.authority_option import offer_authority
from pleroma.cli.commands import lab, pipeline, plan, workload
from pleroma.cli.commands.audit import audit
from pleroma.cli.commands.bench import bench
from pleroma.cli.commands.broker import broker
from pleroma.cli.commands.demo import demo
from pleroma.cli.commands.experiment import experiment
from pleroma.cli.commands.explain import explain
from pleroma.cli.commands.hosts.host_agent import agent
from pleroma.cli.commands.maintain import maintain
from pleroma.cli.commands.migrate import migrate
from pleroma.cli.commands.network import network
from pleroma.cli.commands.people import contexts, group, principal
from pleroma.cli.commands.publish import advertise, publish, withdraw
from pleroma.cli.commands.replay import replay
from pleroma.cli.commands.schemas import schema_commands
from pleroma.cli.commands.simulate import simulate
from pleroma.cli.commands.state import log_commands
from pleroma.cli.commands.state.backup import backup, restore
from pleroma.cli.commands.state.check import check
from pleroma.cli.commands.status import flows, status
from pleroma.cli.commands.subscribe import subscribe
from pleroma.cli.commands.sweep import sweep
from pleroma.cli.commands.trace import trace
from pleroma.cli.commands.tune import tune
from pleroma.cli.commands.up import up
from pleroma.cli.commands.watch import watch
from pleroma.cli.context_option import offer_contexts

app = typer.Typer(
    name="pleroma",
    help="Content-based publish/subscribe whose filtering happens in the network.\n\n"
    "Begin with: pleroma explain 'price >= 50 and volume < 30' --schema examples/stock.toml",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pleroma {pleroma.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Options of the command itself; `version` has acted before this runs."""


RUNNING: tuple[Callable[..., None], ...] = (
    demo, up, broker, agent, check, backup, restore,
    status, network, publish, subscribe, advertise, withdraw, flows, trace, replay,
)  # fmt: skip
STUDYING: tuple[Callable[..., None], ...] = (explain, tune, audit, simulate, experiment, bench)
PIPELINE: tuple[Callable[..., None], ...] = (watch, audit, sweep, maintain, migrate)

for command in (*RUNNING, *STUDYING):
    app.command()(command)
for command in PIPELINE:
    pipeline.app.command()(command)
for branch, name in (
    (schema_commands, "schema"), (workload, "workload"), (lab, "lab"), (plan, "plan"), (pipeline, "pipeline"),
    (principal, "principal"), (group, "group"), (contexts, "context"), (log_commands, "log"),
):  # fmt: skip
    app.add_typer(branch.app, name=name)
offer_contexts(app)
offer_authority(app)
