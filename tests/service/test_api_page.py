"""What docs/api.md promises: its examples run, in order, and its tables are those of the code."""

import asyncio
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from pleroma.content.language import MAX_TEXT
from pleroma.content.work_budget import MAX_BOXES
from pleroma.control import ControlSettings
from pleroma.control.kept_answers import REMEMBERED_POSITIONS
from pleroma.control.transition.schema_plans import MAX_VERSIONS
from pleroma.errors import PleromaError
from pleroma.routing import build
from pleroma.service import Deployment, ServiceSettings, running
from pleroma.service.deployment import API_PORT
from pleroma.service.http import paging
from pleroma.service.http.gate import OPEN_PATHS
from pleroma.service.http.given_filter import MAX_BATCH_WORK_UNITS, MAX_FILTER_WORK_UNITS
from pleroma.service.http.problems import _STATUS, code_of
from pleroma.service.http.resources.registration_batches import REQUESTS_PER_ITEM
from pleroma.service.turns import MAX_WAITING_PIECES
from pleroma.wire.api_terms import MAX_BATCH_ITEMS
from support.service.in_process import world
from support.service.openapi_document import OpenApiDocument
from support.waiting import run

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
ADDRESS = re.compile(r"\$URL(/[^\s\"?]*)")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def commands(language="sh"):
    """The curl commands of the page, one after the other; `console` has those that take another network."""
    text = "\n".join(blocks(language)).replace("\\\n", " ")
    return [command for command in re.split(r"^(?=curl)", text, flags=re.MULTILINE) if command.startswith("curl")]


def method_of(command):
    words = shlex.split(command)
    if "-X" in words:
        return words[words.index("-X") + 1]
    return "POST" if "-d" in words else "GET"


def test_every_operation_has_an_example_and_every_example_an_operation(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            return api.app.openapi()

    document = run(main)
    judge = OpenApiDocument(document)
    shown = {
        (method_of(each), judge.template(ADDRESS.search(each).group(1))) for each in commands() + commands("console")
    }
    declared = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert shown == declared


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is missing: the examples of docs/api.md were NOT run")
def test_the_examples_run_as_they_stand(tmp_path):
    async def main():
        async with running(tmp_path, build("testbed"), Deployment(port=0)) as service:
            script = "\n".join(
                f"{each.strip()} -w '\\n%{{http_code}} {method_of(each)}\\n' || true" for each in commands()
            )
            process = await asyncio.create_subprocess_exec(
                "bash",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={"URL": service.url, "TOKEN": service.token, "PATH": "/usr/bin:/bin:/usr/local/bin"},
            )
            out, _ = await process.communicate(script.encode())
            return out.decode()

    out = run(main, 60)
    statuses = re.findall(r"^(\d{3}) (\w+)$", out, re.MULTILINE)
    assert len(statuses) == len(commands())
    assert not [status for status, _ in statuses if not status.startswith(("2", "304"))], out
    assert ": alive" in out
    assert ("304", "GET") in statuses


def test_json_blocks_are_json():
    read = [json.loads(block) for block in blocks("json")]
    assert read
    assert all(isinstance(each, dict) for each in read)


def test_the_table_of_errors_is_right():
    rows = dict(re.findall(r"^\| (\d{3}) \| (.*?) \|", PAGE, re.MULTILINE))
    assert {int(status) for status in rows} == set(_STATUS.values())
    known = {code_of(kind.__new__(kind)): kind for kind in _everything()}
    for status, codes in rows.items():
        for code in re.findall(r"`(\w+)`", codes):
            kind = known[code]
            assert next(_STATUS[each] for each in kind.__mro__ if each in _STATUS) == int(status), code


def _everything():
    found = [PleromaError]
    for kind in found:
        found.extend(kind.__subclasses__())
    return found


def test_the_limits_are_those_in_force():
    settings = ServiceSettings()
    assert settings.max_body_bytes == 2**20
    for number in (settings.requests_per_s, settings.anonymous_per_s, settings.max_subscriptions, settings.max_streams):
        assert f"{number:,.0f}" in PAGE.split("## Limits")[1]
    assert f"{settings.max_boxes:,} unless" in PAGE
    assert f"a page that has {paging.MAX_PAGE_BYTES // 1024} KiB ends earlier" in PAGE
    assert f"wait for a long piece of work | {MAX_WAITING_PIECES} |" in PAGE
    assert f"{paging.DEFAULT_PAGE_ITEMS} items, or `limit` (at most {paging.MAX_PAGE_ITEMS:,})" in PAGE
    assert f"| items of a batch | {MAX_BATCH_ITEMS:,} |" in PAGE
    assert REQUESTS_PER_ITEM == 1 / 2
    assert "an item counts as half a request" in PAGE
    assert MAX_BATCH_WORK_UNITS == 4 * MAX_FILTER_WORK_UNITS
    assert "share four times the work that one may take" in PAGE
    assert f"{MAX_TEXT:,} characters, {MAX_BOXES} boxes" in PAGE
    assert f"| schemas | {2 ** ControlSettings().schema_bits} |" in PAGE
    assert f"| versions of a schema | {MAX_VERSIONS} |" in PAGE
    assert f"the last {REMEMBERED_POSITIONS:,}" in re.sub(r"\s+", " ", PAGE)
    assert f"port {API_PORT}" in PAGE
    for path in OPEN_PATHS:
        assert f"`{path}`" in PAGE
