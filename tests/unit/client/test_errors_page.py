"""docs/client.md lists every error that a program with a client may meet."""

import ast
import re
from pathlib import Path

from pleroma import errors

ROOT = Path(__file__).parents[3]
ROOMS = ("client", "content", "wire", "index")
"""What a client is made of, besides the filter at the edge, which raises nothing."""
OTHER_SIDE = "socket_sessions.py"
"""What clients attach to, and no part of a client."""
PAGE = (ROOT / "docs" / "client.md").read_text().partition("## Errors")[2]
KNOWN = {name: each for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, Exception)}


def made(room):
    """The errors of our tree that the code of a room makes, by name."""
    for path in (ROOT / "src" / "pleroma" / room).rglob("*.py"):
        if path.name == OTHER_SIDE:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KNOWN:
                yield node.func.id


def test_the_page_lists_every_error_that_a_client_may_raise():
    raised = {name for room in ROOMS for name in made(room)}
    assert {"RequestRefused", "BufferFull", "NoValue", "PlanError"} <= raised
    listed = set(re.findall(r"`(\w+)`", PAGE))
    assert sorted(raised - listed) == []


def test_the_page_lists_no_error_that_is_not_there():
    listed = re.findall(r"^\| `(\w+)`", PAGE, re.MULTILINE)
    assert [name for name in listed if name not in KNOWN] == []
    assert len(listed) >= 12
