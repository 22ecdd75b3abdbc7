"""The page at /docs: everything the document has, and nothing from anywhere else."""

import asyncio
import re

import pytest

from pleroma.service.http.docs_page import page
from support.service.in_process import world


def test_the_page_has_every_operation_and_loads_nothing_from_elsewhere(tmp_path):
    async def scenario():
        async with world(tmp_path, schema=False) as api:
            answer = await api.client.get("/docs")
            document = (await api.client.get("/openapi.json")).json()
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/html")
        for path, operations in document["paths"].items():
            for method in operations:
                assert f"id='{method}{path}'" in answer.text
        for field in ("lease", "members", "udp_host", "unreachable"):
            assert f"<code>{field}</code>" in answer.text
        assert not re.search(r"(src|href)=.https?:|<script|@import|url\(", answer.text)

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["<b>", 'a"b', "x&y"])
def test_what_the_document_says_cannot_become_markup(name):
    operation = {"tags": [name], "summary": name, "description": name, "responses": {}}
    made = page({"info": {"title": name, "version": "1", "description": name}, "paths": {"/": {"get": operation}}})
    assert name not in made
