"""Where a command finds its controller and its token: options, a context, the environment, or the defaults."""

import json
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from pleroma.cli.command_tree import app as pleroma_app
from pleroma.cli.context_option import offer_contexts
from pleroma.cli.kept_tokens import KeptToken
from pleroma.cli.remote import DEFAULT_URL, PrincipalOption, TokenOption, UrlOption
from pleroma.client.saved_contexts import SavedContext, SavedContexts
from pleroma.errors import SetupError, UnknownName

LAB = SavedContext("http://lab:1", "ann", "plr_lab", ca_file="/ca.pem")
PROD = SavedContext("http://prod:2", None, "plr_prod")


@pytest.fixture(autouse=True)
def saved(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PLEROMA_CA", "")
    monkeypatch.delenv("PLEROMA_CA")
    monkeypatch.chdir(tmp_path)
    for name in ("URL", "TOKEN", "PRINCIPAL", "CONTEXT"):
        monkeypatch.delenv(f"PLEROMA_{name}", raising=False)
    made = SavedContexts().with_context("lab", LAB).with_context("prod", PROD)
    made.save()
    return made


def called(*arguments, **environment):
    """What a command is called with."""
    seen = {}
    program, inner = typer.Typer(), typer.Typer()

    @program.command()
    def ask(url: UrlOption = DEFAULT_URL, token: TokenOption = None, principal: PrincipalOption = None) -> None:
        seen.update(url=url, token=token, principal=principal)

    @inner.command()
    def maybe(url: Annotated[str | None, typer.Option(envvar="PLEROMA_URL")] = None, token: TokenOption = None) -> None:
        seen.update(url=url, token=token)

    program.add_typer(inner, name="inner")

    @inner.command()
    def other(url: UrlOption = DEFAULT_URL) -> None:
        seen.update(url=url)

    offer_contexts(program)
    result = CliRunner(env=environment).invoke(program, arguments, catch_exceptions=False, standalone_mode=False)
    if isinstance(result.exception, Exception):
        raise result.exception
    return tuple(seen.values())


def test_the_current_context_is_used_if_nothing_else_is_said(saved):
    assert called("ask") == ("http://lab:1", "plr_lab", "ann")
    saved.using("prod").save()
    assert called("ask") == ("http://prod:2", "plr_prod", None)
    saved.without("lab").save()
    assert called("ask") == (DEFAULT_URL, None, None)


def test_a_context_that_is_named_goes_before_the_environment():
    assert called("ask", PLEROMA_CONTEXT="prod") == ("http://prod:2", "plr_prod", None)
    environment = {"PLEROMA_URL": "http://env", "PLEROMA_TOKEN": "plr_env", "PLEROMA_CONTEXT": "lab"}
    assert called("ask", "--context", "prod", **environment) == ("http://prod:2", "plr_prod", None)
    assert called("ask", **environment) == ("http://env", "plr_env", None)


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        (("--url", "http://x"), {}, ("http://x", None, None)),
        (("--token", "plr_x"), {}, (DEFAULT_URL, "plr_x", None)),
        ((), {"PLEROMA_URL": "http://x"}, ("http://x", None, None)),
        ((), {"PLEROMA_TOKEN": "plr_x"}, (DEFAULT_URL, "plr_x", None)),
        (("--context", "lab", "--token", "plr_x"), {}, ("http://lab:1", "plr_x", "ann")),
        (("--context", "lab", "--principal", "bob"), {}, ("http://lab:1", "plr_lab", "bob")),
    ],
)
def test_the_token_of_a_context_goes_to_its_controller_and_to_no_other(arguments, environment, expected):
    assert called("ask", *arguments, **environment) == expected


def test_a_context_with_another_url_or_one_that_there_is_not_is_refused():
    with pytest.raises(SetupError, match="--url or --context"):
        called("ask", "--context", "lab", "--url", "http://x")
    with pytest.raises(UnknownName, match="lap"):
        called("ask", "--context", "lap")


def test_a_command_that_works_without_a_controller_uses_a_context_only_if_told():
    assert called("inner", "maybe") == (None, None)
    assert called("inner", "maybe", "--context", "lab") == ("http://lab:1", "plr_lab")
    assert called("inner", "other") == (DEFAULT_URL,)


def test_the_authority_of_a_context_is_told_by_the_variable(monkeypatch):
    import os

    called("ask")
    assert os.environ.pop("PLEROMA_CA") == "/ca.pem"
    monkeypatch.setenv("PLEROMA_CA", "/mine.pem")
    called("ask")
    assert os.environ["PLEROMA_CA"] == "/mine.pem"


def test_every_command_that_takes_a_controller_and_a_token_takes_a_context():
    def options(command, path):
        for name, each in getattr(command, "commands", {}).items():
            yield from options(each, (*path, name))
        yield path, {option for each in command.params for option in each.opts}

    taking = {path for path, found in options(typer.main.get_command(pleroma_app), ()) if "--context" in found}
    assert {("status",), ("plan", "show"), ("publish",), ("explain",), ("pipeline", "watch"), ("replay",)} <= taking
    assert {("principal", "rotate"), ("group", "list")} <= taking
    assert not {("up",), ("broker",), ("context", "add")} & taking


def run(*arguments):
    result = CliRunner().invoke(pleroma_app, ["context", *arguments], standalone_mode=False)
    if isinstance(result.exception, Exception):
        raise result.exception
    return result.output


def test_contexts_from_the_shell_never_show_a_token(tmp_path):
    (tmp_path / "a.token").write_text("plr_file\n")
    (tmp_path / "ca.pem").write_text("")
    said = run("add", "new", "--url", "http://n", "--token-file", "a.token", "--ca-file", "ca.pem", "--use", "--json")
    (shown,) = json.loads(said)["contexts"]
    assert (shown["current"], shown["token"]) == (True, str(tmp_path / "a.token"))
    assert SavedContexts.load().find("new").read_token() == "plr_file"
    run("add", "new", "--url", "http://n", "--token-file", "a.token", "--ca-file", "ca.pem")  # the same once more
    with pytest.raises(SetupError, match="--replace"):
        run("add", "new", "--url", "http://m", "--token", "plr_secret")
    run("add", "new", "--url", "http://m", "--token", "plr_secret", "--replace")
    run("use", "prod")
    listed = json.loads(run("list", "--json"))["contexts"]
    assert [(each["name"], each["current"]) for each in listed] == [("lab", False), ("prod", True), ("new", False)]
    assert json.loads(run("show", "--json"))["contexts"][0]["name"] == "prod"
    assert "http://m" in run("show", "new")
    assert "plr_" not in said + run("list") + run("list", "--json") + run("show", "new")
    assert json.loads(run("remove", "prod", "--json")) == {"removed": "prod", "current": None}
    with pytest.raises(SetupError, match="context use"):
        run("show")


@pytest.mark.parametrize(
    "arguments",
    [(), ("--token", "plr_x", "--token-file", "x"), ("--token-file", "missing"), ("--token", "-"), ("--ca-file", "no")],
)
def test_a_context_without_a_token_or_with_files_that_are_not_there_is_refused(arguments):
    more = ("--token", "plr_x") if "--ca-file" in arguments else ()
    with pytest.raises((SetupError, OSError)):
        run("add", "new", "--url", "http://x", *arguments, *more)
    assert "new" not in SavedContexts.load().by_name


def test_a_token_that_is_replaced_is_replaced_wherever_this_machine_keeps_it(saved, tmp_path):
    folder = tmp_path / ".pleroma"
    folder.mkdir()
    (folder / "admin.token").write_text("plr_old\n")
    (tmp_path / "other.token").write_text("plr_other\n")
    for name, context in (
        ("same", SavedContext("http://x", token_file=str(folder / "admin.token"))),
        ("other", SavedContext("http://x", token_file=str(tmp_path / "other.token"))),
        ("inside", SavedContext("http://x", token="plr_old")),  # noqa: S106
    ):
        saved = saved.with_context(name, context)
    saved.save()
    kept = KeptToken.find("plr_old")
    assert [len(kept.files), kept.contexts] == [1, ("inside",)]
    assert len(kept.places) == 2
    kept.exchange("plr_new")
    assert (folder / "admin.token").read_text() == "plr_new\n"
    assert (folder / "admin.token").stat().st_mode & 0o077 == 0
    after = SavedContexts.load()
    assert {after.find(name).read_token() for name in ("inside", "same")} == {"plr_new"}
    assert after.find("other").read_token() == "plr_other"
    assert after.find("lab") == LAB
    assert KeptToken.find("plr_nowhere").places == []
