"""`pleroma lab`: a network of real switches on this machine, to use and to break, or a Spark cluster, or an etcd."""

from __future__ import annotations

import typer

from pleroma.cli.commands.lab import etcd_lab, lab_faults, standing_lab

app = typer.Typer(
    help="Real parts on this machine: Open vSwitch and hosts, wired as a topology says; a Spark cluster; an etcd.",
    no_args_is_help=True,
)
WORDS_AS_GIVEN = {"allow_interspersed_args": False, "ignore_unknown_options": True}
"""For commands whose last arguments are those of another program."""

app.command()(standing_lab.up)
app.command("exec", context_settings={"allow_interspersed_args": False})(standing_lab.execute)
app.command()(lab_faults.cut)
app.command()(lab_faults.mend)
app.command()(lab_faults.stop)
app.command()(lab_faults.start)
app.command()(lab_faults.flows)
app.command(context_settings=WORDS_AS_GIVEN)(lab_faults.ofctl)
app.command("list")(standing_lab.list_labs)
app.command()(standing_lab.down)
app.command()(standing_lab.spark)
app.add_typer(etcd_lab.app, name="etcd")
