"""Examples that the OpenAPI document shows: the stock schema of examples/stock.toml, as a program sends it."""

from __future__ import annotations

from typing import Any

EXAMPLE_SCHEMA: dict[str, Any] = {
    "name": "stock",
    "attribute": [
        {"kind": "real", "name": "price", "min": 0.0, "max": 1000.0},
        {"kind": "integer", "name": "volume", "min": 0, "max": 1023},
        {"kind": "text", "name": "ticker", "linearise": "order"},
        {"kind": "category", "name": "market", "values": ["xetra", "lse", "nyse", "nasdaq"], "optional": True},
    ],
}
EXAMPLE_EVENT = '{"price": 151.5, "volume": 300, "ticker": "AAPL"}'
EXAMPLE_INDEX: dict[str, Any] = {"kind": "grid", "order": [0, 1, 2, 3, 0, 1, 2, 3], "boundaries": {}}
EXAMPLE_PLAN: dict[str, Any] = {
    "format": 1,
    "epoch": 1,
    "schema": EXAMPLE_SCHEMA,
    "index": EXAMPLE_INDEX,
    "members": 8,
    "checksum": "183b2d78c78a6fd989fb9e99d6c8ef3bf6b8832c975d6171c501fdc054855edd",
}
