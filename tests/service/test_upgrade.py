"""Upgrades: a folder that an earlier release has written opens with all that was in it, and goes on.

The folders in tests/data were written by `tests/data/make_state.py`, each by the release of its time.
"""

import json
import tarfile
from pathlib import Path

import httpx
import pytest

from pleroma.control.state_backup import back_up, put_back
from pleroma.control.state_check import check_state
from pleroma.routing import build
from pleroma.service import Deployment, running
from support.waiting import run

KEPT = sorted((Path(__file__).parents[1] / "data").glob("state-*.tar.gz"))
LINE = build("line:3")


class Asked:
    """Requests to a service, each with the token of a principal."""

    def __init__(self, service, tokens):
        self._url = service.url
        self._tokens = tokens

    async def __call__(self, method, path, who, body=None):
        headers = {"Authorization": f"Bearer {self._tokens[who]}"}
        async with httpx.AsyncClient(base_url=self._url, headers=headers) as client:
            answer = await client.request(method, path, json=body)
            return answer.status_code, answer.json() if answer.content else None


def serving(folder):
    return running(folder, LINE, Deployment(port=0))


async def registered(ask):
    (_, advertised), (_, subscribed) = [
        await ask("GET", f"/v1/{kind}", "admin") for kind in ("advertisements", "subscriptions")
    ]
    return [each["id"] for each in (*advertised["items"], *subscribed["items"])]


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: kept.name.partition(".")[0])
def test_a_folder_of_an_earlier_release_opens_with_everything_and_goes_on(tmp_path, kept):
    with tarfile.open(kept) as tar:
        tar.extractall(tmp_path, filter="data")
    expected = json.loads((tmp_path / "expected.json").read_text())
    folder, tokens = tmp_path / "state", expected["tokens"]

    async def first_start():
        async with serving(folder) as service:
            ask = Asked(service, tokens)
            assert service.token is None  # there is an administrator, whose token is the one of before
            assert sorted(await registered(ask)) == sorted(expected["ids"])
            _, plan = await ask("GET", "/v1/schemas/stock/plan", "tim")
            wanted = expected["plan"]
            assert [plan["plan"][each] for each in ("epoch", "index")] == [wanted["epoch"], wanted["index"]]
            for switch, rules in expected["rules"].items():
                _, found = await ask("GET", f"/v1/switches/{switch}/flows?limit=1000", "admin")
                assert [[each["dz"], each["outputs"]] for each in found["items"]] == rules
            asked = {"schema": "stock", "filter": "price > 10", "host": "h2"}
            assert (await ask("POST", "/v1/advertisements", "sue", asked))[0] == 403
            assert (await ask("POST", "/v1/advertisements", "pat", asked | {"filter": "price > 450"}))[0] == 403
            status, made = await ask("POST", "/v1/subscriptions", "sue", asked)
            assert status == 201
            return made["id"]

    async def later_start(added):
        async with serving(folder) as service:
            assert sorted(await registered(Asked(service, tokens))) == sorted([*expected["ids"], added])

    added = run(first_start)
    run(lambda: later_start(added))
    assert not [each for each in check_state(folder, [LINE]) if each.is_fault]
    backed_up = back_up(folder, tmp_path / "backup")
    assert put_back(tmp_path / "backup", tmp_path / "restored") == backed_up


def test_folders_of_earlier_releases_are_kept():
    assert len(KEPT) >= 2
