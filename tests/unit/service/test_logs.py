"""Logs: JSON for programs, and no token in them even when the service fails in the middle of a request."""

import io
import json
import logging

import pytest
import structlog

from pleroma.private_file import write_private
from pleroma.service import logs
from pleroma.service.http.tokens import digest, new_token
from pleroma.service.logs import LogSettings
from support.logging_restored import logging_restored
from support.service.in_process import ADMIN, world
from support.waiting import run


@pytest.fixture
def captured():
    out = io.StringIO()
    with logging_restored():
        logs.configure(stream=out)
        yield out


def test_an_unexpected_failure_is_logged_with_its_traceback_and_without_the_token(tmp_path, captured, monkeypatch):
    async def main():
        async with world(tmp_path, schema=False) as api:

            def broken(*_):
                raise RuntimeError("something")

            monkeypatch.setattr(api.app.state.service.controller, "report", broken)
            made = await api.post("/v1/principals", {"name": "ann", "role": "both"})
            await api.as_(made["token"]).client.post("/v1/reports", json={})
            await api.client.post("/v1/reports", json={})
            return made["token"]

    token = run(main)
    lines = [json.loads(line) for line in captured.getvalue().splitlines()]
    failures = [line for line in lines if line["event"] == "unexpected failure"]
    assert len(failures) == 2
    assert "RuntimeError: something" in failures[0]["traceback"]
    assert failures[0]["level"] == "error"
    assert failures[0]["timestamp"].endswith("Z")
    for secret in (token, ADMIN, digest(token)):
        assert secret not in captured.getvalue()


def test_libraries_log_in_the_same_form(captured):
    logging.getLogger("uvicorn.error").warning("something %s", "odd")
    line = json.loads(captured.getvalue())
    assert (line["event"], line["logger"], line["level"]) == ("something odd", "uvicorn.error", "warning")


def test_a_terminal_gets_lines_for_people_without_local_variables():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    out = Terminal()
    with logging_restored():
        logs.configure(stream=out)
        secret = "plr_" + "secret"
        assert secret
        try:
            raise RuntimeError("something")
        except RuntimeError:
            structlog.get_logger("x").error("failed", exc_info=True)
        assert "RuntimeError: something" in out.getvalue()
        assert "plr_secret" not in out.getvalue()


@pytest.mark.parametrize("form", ["json", "text"])
def test_the_form_and_the_level_can_be_chosen(form):
    out = io.StringIO()
    with logging_restored():
        logs.configure(LogSettings(form, "error"), out)
        for name in ("pleroma.service", "uvicorn.error"):
            structlog.get_logger(name).warning("not so serious")
            logging.getLogger(name).warning("nor this")
        structlog.get_logger("pleroma.service").error("the disk is full", folder="here")
    (line,) = out.getvalue().splitlines()
    if form == "json":
        assert json.loads(line)["folder"] == "here"
    else:
        assert "the disk is full" in line
        assert "folder=here" in line
        assert "\x1b" not in line  # no colours in a file


def test_tokens_are_long_random_and_recognisable():
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(token.startswith("plr_") and len(token) == 47 for token in tokens)


def test_a_token_file_is_private_even_where_there_was_an_open_one(tmp_path):
    path = tmp_path / "admin.token"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, "new")
    assert path.read_text() == "new\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]
