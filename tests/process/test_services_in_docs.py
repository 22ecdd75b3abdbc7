"""The services of the docs: every `pleroma up` and `pleroma broker` there starts, answers its administrator, and stops.

Each runs in a process and a folder of its own, on ports that are free, with files of the names that the docs use.
"""

import json
import shlex
import signal
import ssl
import subprocess
import sys
from contextlib import contextmanager, nullcontext

import httpx
import pytest

from pleroma.routing import build
from pleroma.routing.topology_files import to_json
from support.certificates import certified
from support.docs_commands import LISTED
from support.network.world import free_port
from support.object_store.server import ObjectStore
from support.programs import environment

SERVICES = [command for command in LISTED if command.split()[0] in ("up", "broker")]
BUCKET = "s3://bucket/pleroma-lake"
ETCD = "etcd://etcd-a:2379,etcd-b:2379,etcd-c:2379/prod"
END_SECONDS = 60


def test_the_docs_start_services_of_every_kind():
    for words in ("--https", "--lake /", BUCKET, ETCD, "--log-format", "--network openflow", "--trees", "--upstream"):
        assert any(words in command for command in SERVICES), f"the docs have no {words}"


@pytest.fixture
def folder(tmp_path):
    """What the commands name: a certificate with its key, and a network."""
    for file, name in zip(certified(tmp_path, "made"), ("certificate.pem", "key.pem"), strict=True):
        file.rename(tmp_path / name)
    (tmp_path / "network.json").write_text(json.dumps(to_json(build("testbed"))), encoding="utf-8")
    return tmp_path


def arguments_of(command, folder):
    """The command as it is run here: its state in this folder, and on ports that are free."""
    words = shlex.split(command.replace("/var/lib/", f"{folder}/").replace("127.0.0.1:8470", "127.0.0.1:0"))
    words = [word.replace("127.0.0.1:8471", "127.0.0.1:0") for word in words]
    if words[0] == "up":
        words += ["--port", "0"]
    if "openflow" in words:
        words += ["--listen", f"127.0.0.1:{free_port()}"]
    return [*words, "--json"]


@contextmanager
def started(arguments, folder, **more):
    """A service, and where it is when it is ready; it is told to stop in the end, and does."""
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "pleroma.cli", *arguments],
            cwd=folder,
            env=environment(**more),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    with process:
        try:
            line = process.stdout.readline()
            assert line, (folder / "log").read_text()
            yield json.loads(line)
            process.send_signal(signal.SIGINT)
            assert process.wait(END_SECONDS) == 0
        finally:
            process.kill()
    assert "Traceback" not in (folder / "log").read_text()


def answered(told, folder):
    """Who the service says that we are, with the token and the certificate that are in the folder."""
    token = (folder / told["token_file"]).read_text().strip()
    certificate = folder / "certificate.pem"
    trust = ssl.create_default_context(cafile=certificate if certificate.exists() else None)
    url = told["url"].replace("0.0.0.0", "127.0.0.1")  # noqa: S104
    answer = httpx.get(f"{url}/v1/me", verify=trust, headers={"Authorization": f"Bearer {token}"}, timeout=30)
    return answer.json()["name"]


@pytest.mark.parametrize("command", [each for each in SERVICES if ETCD in each])
def test_every_process_of_the_docs_on_a_shared_log_starts_answers_and_stops(command, folder, url):
    first, other = folder / "first", folder / "other"
    for each in (first, other):
        each.mkdir()
    whole = next(each for each in SERVICES if ETCD in each and "--roles" not in each)
    with (
        started(arguments_of(whole.replace(ETCD, url), first), first) as lead,
        started(arguments_of(command.replace(ETCD, url), other), other) as told,
    ):
        assert answered(lead | {"url": told["url"]}, first) == "admin"


ALONE = [each for each in SERVICES if "--upstream" not in each and ETCD not in each]


@pytest.mark.parametrize("command", ALONE)
def test_every_service_in_the_docs_starts_answers_and_stops(command, folder):
    with ObjectStore() if BUCKET in command else nullcontext() as store:
        there = command if store is None else command.replace(BUCKET, store.url("lake"))
        surroundings = {} if store is None else store.environment
        with started(arguments_of(there, folder), folder, **surroundings) as told:
            assert told["url"].startswith("https://" if "--https" in command else "http://")
            assert answered(told, folder) == "admin"
    if "--log-format json --log-level warning" in command:
        lines = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
        assert all(line["level"] in ("warning", "error") for line in lines)


@pytest.mark.parametrize("command", [each for each in SERVICES if "--upstream" in each])
def test_a_broker_of_the_docs_joins_the_one_above(command, folder):
    above, below = folder / "first", folder / "second"
    for each in (above, below):
        each.mkdir()
        (each / "certificate.pem").symlink_to(folder / "certificate.pem")
    with started(["broker", "--listen", "127.0.0.1:0", "--json"], above) as upper:
        token = (above / upper["token_file"]).read_text().strip()
        made = httpx.post(
            f"{upper['url']}/v1/principals",
            json={"name": "below", "role": "both", "publish": {"*": "true"}, "read": {"*": "true"}},
            headers={"Authorization": f"Bearer {token}"},
        ).json()
        words = ["plr_…", "udp://127.0.0.1:0"], [made["token"], upper["udp"]]
        there = [dict(zip(*words, strict=True)).get(word, word) for word in arguments_of(command, below)]
        with started(there, below) as lower:
            assert answered(lower, below) == "admin"
            assert httpx.get(f"{lower['url']}/health").json()["status"] == "ok"
