"""Groups of options: a command gets a record, the command line has an option for each of its fields."""

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from pleroma.cli.options import BudgetOptions, grouped
from pleroma.errors import SetupError


@dataclass(frozen=True)
class Colour:
    red: Annotated[int, typer.Option(help="How red.")]
    green: Annotated[int, typer.Option("--verdant", min=0, help="How green.")] = 7


calls = []


@grouped
def paint(what: str, *, colour: Colour, coats: Annotated[int, typer.Option(help="How often.")] = 1):
    """Paint something."""
    calls.append((what, colour, coats))


def run(*words):
    app = typer.Typer()
    app.command()(paint)
    calls.clear()
    return CliRunner().invoke(app, words)


def test_a_command_gets_its_options_as_a_record():
    assert run("fence", "--red", "3", "--verdant", "5", "--coats", "2").exit_code == 0
    assert calls == [("fence", Colour(3, 5), 2)]


def test_fields_that_are_not_given_have_their_defaults():
    assert run("fence", "--red", "3").exit_code == 0
    assert calls == [("fence", Colour(3, 7), 1)]


def test_a_field_without_a_default_is_required_and_limits_are_kept():
    assert run("fence").exit_code == 2
    assert run("fence", "--red", "3", "--verdant", "-1").exit_code == 2
    assert not calls


def test_help_has_every_field_in_the_place_of_its_record():
    shown = run("--help").stdout
    places = [shown.index(each) for each in ("How red.", "How green.", "How often.")]
    assert places == sorted(places)
    assert "Paint something." in shown


def test_a_program_calls_it_with_the_same_names():
    calls.clear()
    paint("fence", red=1, coats=4)
    assert calls == [("fence", Colour(1), 4)]


@pytest.mark.parametrize("given", [{"rules": 0}, {"members": -1}])
def test_a_budget_of_nothing_is_refused_by_the_name_of_its_option(given):
    with pytest.raises(SetupError, match="no budget") as refused:
        BudgetOptions(**given).check()
    assert refused.value.field == f"--{next(iter(given))}"
