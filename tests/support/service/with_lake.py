"""A service in this process that collects into a lake in the test's folder."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pleroma.content import Schema
from pleroma.control import Controller, CreatePrincipal, CreateSchema, Register
from pleroma.pipeline.lake.lake import Lake
from pleroma.routing import build
from pleroma.service import CollectingSettings, create_app
from pleroma.service.collecting.collection import Collection
from pleroma.service.collecting.network_landing import KnownNetwork
from pleroma.service.http.examples import EXAMPLE_SCHEMA
from pleroma.service.http.tokens import digest
from pleroma.service.planes.embedded_plane import EmbeddedPlane
from pleroma.switches.live.live_network import LiveNetwork
from support.service.in_process import ADMIN, UNLIMITED, Api

STOCK = Schema.from_json(EXAMPLE_SCHEMA)
COLUMNS = {"price": [151.5, 20], "volume": [300, 4], "ticker": ["AAPL", "IBM"], "market": ["nyse", None]}


def sample_body(**changed: object) -> dict[str, object]:
    """The body of a request that hands over two samples."""
    return {"schema": "stock", "epoch": 1, "rate": 0.5, "ages": [0.5, 7200.0], "columns": COLUMNS} | changed


def batch(number: int, sender: str = "sender") -> dict[str, object]:
    return {"sender": sender, "number": number}


@asynccontextmanager
async def collecting(
    folder: Path,
    running: bool = False,
    schema: bool = True,
    advertised: bool = True,
    lake: Path | None = None,
    network: KnownNetwork | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[Api, Collection, Lake]]:
    """Requests of the administrator to a service with a lake, which lands nothing by itself unless it is running.

    The administrator advertises all events of the schema, so that its samples are taken.
    """
    async with (
        LiveNetwork(build("line:2"), loopback=True) as switches,
        await Controller.open(folder / "service", build("line:2"), switches) as controller,
    ):
        if not controller.state.schemas:
            await controller.submit(CreatePrincipal("admin", "admin", digest(ADMIN)))
            if schema:
                await controller.submit(CreateSchema(STOCK))
            if schema and advertised:
                await controller.submit(Register("advertisement", "admin", "h1", "stock", [{}]))
        given = CollectingSettings(str(lake or folder / "lake"), **{"land_seconds": 0.05, "sample": 0.5} | settings)
        plane = EmbeddedPlane(switches)
        collection = await Collection.open(controller, given, network or plane)
        api = Api(create_app(controller, plane, UNLIMITED, collection))
        async with api.client:
            if not running:
                yield api, collection, collection.lake
                collection.close()
                return
            async with collection:
                yield api, collection, collection.lake


def landed(lake: Lake, kind: str = "events") -> list[dict[str, Any]]:
    """The rows of the stock schema in the lake."""
    table = lake.event_table("stock") if kind == "events" else lake.table("reports")
    rows: list[dict[str, Any]] = table.rows().to_pylist()
    return rows
