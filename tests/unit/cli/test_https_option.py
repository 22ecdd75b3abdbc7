"""`--https` and `--ca`: what is said of what others can read; every command that asks a controller takes `--ca`."""

import os

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

from pleroma.cli import https_option
from pleroma.cli.command_tree import app


def commands(group, path=()):
    for name, each in group.commands.items():
        if isinstance(each, TyperGroup):
            yield from commands(each, (*path, name))
        else:
            yield " ".join((*path, name)), {option for parameter in each.params for option in parameter.opts}


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize(
    ("host", "https", "events_at", "said"),
    [
        ("127.0.0.1", None, None, []),
        ("::1", None, "127.0.0.1", []),
        ("localhost", None, "localhost", []),
        ("0.0.0.0", None, None, ["requests and tokens are in clear"]),  # noqa: S104
        ("controller.example", ("a", "b"), None, []),
        ("10.0.0.1", None, "10.0.0.1", ["requests and tokens are in clear", "events are in clear"]),
        ("::", ("a", "b"), "::", ["events are in clear"]),
    ],
)
def test_what_others_can_read_is_said_in_a_line_each(monkeypatch, host, https, events_at, said):
    lines = []
    monkeypatch.setattr(https_option.err, "print", lines.append)
    https_option.show_what_is_in_clear(host, https, events_at)
    assert len(lines) == len(said)
    assert all(line.startswith(begin) for line, begin in zip(lines, said, strict=True))


def test_every_command_that_asks_a_controller_takes_an_authority():
    asking = {name for name, options in COMMANDS.items() if {"--url", "--upstream"} & options} - {"context add"}
    assert asking == {name for name, options in COMMANDS.items() if "--ca" in options}
    assert {"status", "subscribe", "plan show", "pipeline watch", "broker"} <= asking


def test_the_authority_reaches_whatever_the_command_starts(monkeypatch, tmp_path):
    monkeypatch.setenv("PLEROMA_CA", "of the environment")
    words = ["status", "--url", "https://127.0.0.1:1", "--token", "x", "--ca", str(tmp_path / "missing.pem")]
    done = CliRunner().invoke(app, words)
    assert os.environ["PLEROMA_CA"] == str(tmp_path / "missing.pem")
    assert "has no certificate of an authority" in str(done.exception)


def test_services_take_a_certificate():
    assert [name for name, options in COMMANDS.items() if "--https" in options] == ["up", "broker"]
