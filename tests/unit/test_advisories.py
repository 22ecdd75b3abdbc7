"""scripts/advisories: known faults of packages fail the check, and a database that cannot be had is said aloud."""

import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "advisories"
CONSTRAINTS = "good==1.0\n# a comment\nbad==2.5  # for a while\nodd==3.0 ; python_version < '4'\n"
UNCHECKED = "PACKAGES ARE NOT CHECKED FOR KNOWN FAULTS"


class Database(BaseHTTPRequestHandler):
    """Knows faults of one package, as osv.dev tells them."""

    answer = None
    asked: ClassVar[list] = []

    def do_POST(self):
        queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        Database.asked += queries
        found = [{"vulns": [{"id": "X-1"}, {"id": "X-2"}]} if q["package"]["name"] == "bad" else {} for q in queries]
        body = json.dumps({"results": found}).encode() if self.answer is None else self.answer
        self.send_response(200 if self.path == "/v1/querybatch" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def database(answer=None):
    handler = type("Answering", (Database,), {"answer": answer})
    Database.asked = []
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def looked_up(url, tmp_path, text=CONSTRAINTS):
    (tmp_path / "constraints.txt").write_text(text)
    environment = os.environ | {"PLEROMA_ADVISORIES_URL": url, "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}
    command = [sys.executable, str(SCRIPT), str(tmp_path / "constraints.txt")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_a_package_with_known_faults_fails_the_check_and_is_named_with_them(tmp_path):
    with database() as url:
        found = looked_up(url, tmp_path)
    assert found.returncode == 1
    assert found.stderr == "bad 2.5 has known faults: X-1, X-2\n"
    assert [(each["package"]["name"], each["version"]) for each in Database.asked] == [
        ("good", "1.0"),
        ("bad", "2.5"),
        ("odd", "3.0"),
    ]
    assert {each["package"]["ecosystem"] for each in Database.asked} == {"PyPI"}


def test_packages_without_known_faults_pass(tmp_path):
    with database() as url:
        found = looked_up(url, tmp_path, "good==1.0\n")
    assert (found.returncode, found.stdout, found.stderr) == (0, "1 packages, no known faults\n", "")


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b"{}", b'{"results": []}', b'{"results": [1, 2, 3]}'])
def test_an_answer_that_is_none_is_said_aloud_and_is_no_failure(tmp_path, answer):
    with database(answer) as url:
        found = looked_up(url, tmp_path)
    assert found.returncode == 0
    assert UNCHECKED in found.stderr
    assert "Traceback" not in found.stderr


def test_where_there_is_no_database_it_is_said_aloud_and_is_no_failure(tmp_path):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        found = looked_up(f"http://127.0.0.1:{nobody.getsockname()[1]}", tmp_path)
    assert found.returncode == 0
    assert UNCHECKED in found.stderr


def test_the_check_of_the_sources_looks_packages_up():
    assert "scripts/advisories" in SCRIPT.with_name("check").read_text(encoding="utf-8")
