"""Write the folder of a controller as some release does, with what must be found in it later.

Run it with the release on PYTHONPATH, from its root: `python make_state.py TARGET.tar.gz`. The tar file gets the folder
`state` and `expected.json`; tests/service/test_upgrade.py opens it.
"""

import asyncio
import json
import sys
import tarfile
import tempfile
from pathlib import Path

import httpx

from pleroma.content import Schema
from pleroma.control import Controller
from pleroma.index import GridIndex
from pleroma.routing import build
from pleroma.service import Deployment, running

SNAPSHOT_EVERY = 8
"""Entries: so the folder has a snapshot, and some entries behind it."""


async def main(folder: Path) -> dict[str, object]:
    async with (
        running(folder, build("line:3"), Deployment(port=0)) as service,
        httpx.AsyncClient(base_url=service.url, timeout=30) as client,
    ):

        async def ask(method: str, path: str, token: str | None, body: object = None) -> dict[str, object]:
            answer = await client.request(method, path, json=body, headers={"Authorization": f"Bearer {token}"})
            answer.raise_for_status()
            return answer.json() if answer.content else {}

        tokens = {"admin": service.token}
        schema = Schema.load("examples/stock.toml")
        await ask("POST", "/v1/schemas", service.token, {"schema": schema.to_json()})
        for name, role, rights in (
            ("pat", "publisher", {"publish": {"stock": "price < 500"}}),
            ("sue", "subscriber", {"read": {"stock": "true"}}),
            ("tim", "tuner", {}),
        ):
            made = await ask("POST", "/v1/principals", service.token, {"name": name, "role": role, **rights})
            tokens[name] = made["token"]
        asked = {"schema": "stock", "filter": "price < 400", "host": "h1"}
        ids = [(await ask("POST", "/v1/advertisements", tokens["pat"], asked))["id"]]
        for number in range(4):
            asked = {
                "schema": "stock",
                "filter": f"price > {100 * number} and volume < 500",
                "host": f"h{2 + number % 2}",
            }
            ids.append((await ask("POST", "/v1/subscriptions", tokens["sue"], asked))["id"])
        change = {"index": GridIndex.regular(schema, 20).to_json(), "members": 5}
        await ask("PUT", "/v1/schemas/stock/plan", tokens["tim"], change)
        plan = await ask("GET", "/v1/schemas/stock/plan", service.token)
        rules = {
            switch: [
                (each["dz"], each["outputs"])
                for each in (await ask("GET", f"/v1/switches/{switch}/flows?limit=1000", service.token))["items"]
            ]
            for switch in ("R1", "R2", "R3")
        }
        return {"tokens": tokens, "ids": ids, "plan": plan["plan"], "rules": rules}


def with_snapshots() -> None:
    opened = Controller.open

    async def often(*arguments: object, **given: object) -> Controller:
        return await opened(*arguments, **{**given, "snapshot_every": SNAPSHOT_EVERY})

    Controller.open = often


if __name__ == "__main__":
    with_snapshots()
    with tempfile.TemporaryDirectory() as made:
        expected = asyncio.run(main(Path(made, "state")))
        Path(made, "expected.json").write_text(json.dumps(expected))
        with tarfile.open(sys.argv[1], "w:gz") as tar:
            for name in ("state", "expected.json"):
                tar.add(Path(made, name), name)
