"""Every `pleroma` command in the docs is one that there is, with options and arguments that it takes."""

import shlex

import pytest
import typer

from support.command_line import understood
from support.docs_commands import LISTED, ROOT, arguments_in


def test_the_docs_have_commands():
    assert len(LISTED) > 40


@pytest.mark.parametrize("command", LISTED)
def test_every_command_in_the_docs_is_understood(command, monkeypatch):
    monkeypatch.chdir(ROOT)
    understood(shlex.split(command))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("pleroma up   # prints it", ["up"]),
        ("zcat a.gz | pleroma publish stock --filter 'price > 0 | 1'", ["publish stock --filter 'price > 0 | 1'"]),
        ("sudo scripts/pleroma lab list; pleroma status", ["lab list", "status"]),
        ("$ pleroma trace stock '…'", ["trace stock '…'"]),
        ("ls .pleroma", []),
    ],
)
def test_commands_are_found_in_lines(line, found):
    assert list(arguments_in(line)) == found


@pytest.mark.parametrize("command", ["nothing", "up --no-such-option", "plan show", "simulate --rules many"])
def test_what_is_no_command_is_noticed(command):
    with pytest.raises(typer.TyperException):
        understood(shlex.split(command))
