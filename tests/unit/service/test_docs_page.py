"""The page at /docs: everything the document has, and nothing from anywhere else."""

import asyncio
import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

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
        assert not re.search(r"(src|href)=.https?:|<script [^>]*src|@import|url\(", answer.text)

    asyncio.run(scenario())


def test_the_browser_is_told_to_run_and_to_load_nothing_but_what_is_in_the_page(tmp_path):
    async def scenario():
        async with world(tmp_path, schema=False) as api:
            answer = await api.client.get("/docs")
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
        for tag, rule in (("script", "script-src"), ("style", "style-src")):
            (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", answer.text, re.DOTALL)
            assert policy[rule] == f"'sha256-{b64encode(sha256(inside.encode()).digest()).decode()}'"
        assert (policy["default-src"], policy["connect-src"]) == ("'none'", "'self'")

    asyncio.run(scenario())


class Forms(HTMLParser):
    """The forms of a page by method and path: the names of their fields, and the text of their body."""

    def __init__(self):
        super().__init__()
        self.found = {}
        self._is_body = False

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "form":
            self._form = self.found[given["data-method"], given["data-path"]] = {"fields": [], "body": None}
        elif tag == "input" and "name" in given:
            self._form["fields"].append(given["name"])
        self._is_body = tag == "textarea"

    def handle_data(self, data):
        if self._is_body:
            self._form["body"] = data
            self._is_body = False


def test_every_operation_has_a_form_with_its_parameters_and_a_body_that_the_controller_takes(tmp_path):
    async def scenario():
        async with world(tmp_path, schema=False) as api:
            document = (await api.client.get("/openapi.json")).json()
            forms = Forms()
            forms.feed((await api.client.get("/docs")).text)
            for path, operations in document["paths"].items():
                for method, operation in operations.items():
                    form = forms.found[method.upper(), path]
                    named = [each["name"] for each in operation.get("parameters", ()) if each["in"] != "header"]
                    assert form["fields"] == named
                    assert set(re.findall(r"{(\w+)}", path)) <= set(named)
                    assert (form["body"] is None) == ("requestBody" not in operation)
            for path in ("/v1/schemas", "/v1/principals", "/v1/advertisements", "/v1/subscriptions"):
                await api.post(path, json.loads(forms.found["POST", path]["body"]))

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["<b>", 'a"b', "x&y"])
def test_what_the_document_says_cannot_become_markup(name):
    operation = {"tags": [name], "summary": name, "description": name, "responses": {}}
    made = page({"info": {"title": name, "version": "1", "description": name}, "paths": {"/": {"get": operation}}})
    assert name not in made
