"""What `pleroma up` and `pleroma broker` say of the administrator's token that they made."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from pleroma.cli.commands.up import show_ready, token_fields

MADE = SimpleNamespace(url="http://127.0.0.1:1", token_file=Path(".pleroma/admin.token"), token="plr_first")  # noqa: S106
KNOWN = SimpleNamespace(url="http://127.0.0.1:1", token_file=Path(".pleroma/admin.token"), token=None)


@pytest.mark.parametrize(
    ("running", "show", "is_shown"), [(MADE, False, False), (MADE, True, True), (KNOWN, True, False)]
)
def test_it_is_printed_only_if_asked_for_and_only_when_it_was_made(running, show, is_shown, capsys):
    show_ready(running, show_token=show)
    said = capsys.readouterr().out
    assert ("plr_first" in said) == is_shown
    assert (".pleroma/admin.token" in said) == (running is MADE)
    assert "ready" in said
    fields = token_fields(running, show=show)
    assert fields.pop("token_file") == ".pleroma/admin.token"
    assert fields == ({"token": "plr_first"} if is_shown else {})
