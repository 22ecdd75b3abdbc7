"""Contexts in the user's own file: who can read it, and what becomes of the current one."""

import stat

import pytest

from pleroma.client.saved_contexts import SavedContext, SavedContexts, contexts_path
from pleroma.errors import SetupError, UnknownName


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


LAB = SavedContext("http://127.0.0.1:8470", token="plr_lab")  # noqa: S106


def test_the_file_is_for_its_owner_alone_and_shows_no_token_by_chance():
    SavedContexts().with_context("lab", LAB).save()
    path = contexts_path()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert SavedContexts.load().by_name == {"lab": LAB}
    assert "plr_lab" not in repr(SavedContexts.load())


def test_a_file_that_others_can_read_is_refused():
    SavedContexts().with_context("lab", LAB).save()
    contexts_path().chmod(0o640)
    with pytest.raises(SetupError, match="chmod 600"):
        SavedContexts.load()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"current": null, "contexts": {"lab": {"uri": 1}}}'])
def test_a_file_of_something_else_is_one_clear_error(text):
    SavedContexts().save()
    contexts_path().write_text(text)
    with pytest.raises(SetupError, match="not a file of contexts"):
        SavedContexts.load()


def test_the_first_is_the_current_one_until_another_is_used_or_it_goes():
    saved = SavedContexts()
    assert SavedContexts.load() == saved
    saved = saved.with_context("lab", LAB).with_context("prod", LAB)
    assert saved.current == "lab"
    assert saved.without("prod").current == "lab"
    saved = saved.using("prod")
    assert (saved.current, saved.without("prod").current) == ("prod", None)
    for attempt in (saved.using, saved.without, saved.find):
        with pytest.raises(UnknownName, match="lab"):
            attempt("lap")


def test_without_the_variable_it_is_in_the_home(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert contexts_path() == tmp_path / ".config" / "pleroma" / "contexts.json"


def test_a_token_may_stay_in_its_file(tmp_path):
    path = tmp_path / "token"
    context = SavedContext("http://x", token_file=str(path))
    path.write_text("plr_one\n")
    assert context.read_token() == "plr_one"
    path.write_text("plr_two\n")
    assert context.read_token() == "plr_two"
    for wrong in (b"", b"\xff\n"):
        path.write_bytes(wrong)
        with pytest.raises(SetupError, match="holds no token"):
            context.read_token()
