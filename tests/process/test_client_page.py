"""The programs in docs/client.md and in the README, run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.service.process import ServiceProcess
from support.strategies import STOCK

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "client.md").read_text()


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with ServiceProcess(tmp_path_factory.mktemp("service")) as started:
        started.ask("POST", "/v1/schemas", {"schema": STOCK.to_json()})
        yield started


SAID = [
    "151.5\n",
    "{price=5.0, volume=1, ticker='IBM'}\n",
    "Schema('alarms', room: integer, heat: real)\n",
    "",
    "5.0\n50.0\n",
    "",
]
"""What each of the page's programs prints."""


def test_all_programs_of_the_page_are_run():
    assert len(re.findall("^```python$", PAGE, re.MULTILINE)) == len(SAID)


@pytest.mark.parametrize(("place", "said"), list(enumerate(SAID)))
def test_the_programs_do_what_they_say(service, place, said):
    program = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[place]
    program = f"URL, TOKEN = {service.url!r}, {service.token!r}\n{program}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", said)
    assert service.registered() == []


def test_the_readmes_program_too(service):
    readme = (ROOT / "README.md").read_text()
    program = re.search(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL).group(1)
    assert '"http://127.0.0.1:8470", token="..."' in program
    program = program.replace("http://127.0.0.1:8470", service.url).replace("...", service.token)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "120.5\n")
    assert service.registered() == []


def test_the_page_knows_all_counters():
    from pleroma.client.session.inbox import SubscriptionInfo
    from pleroma.client.session.outbox import PublisherInfo
    from pleroma.client.session.subscribed_schemas import ReceiverInfo

    for kind in (PublisherInfo, SubscriptionInfo, ReceiverInfo):
        assert [name for name in kind.__slots__ if f"`{name}`" not in PAGE] == []
