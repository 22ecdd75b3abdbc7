"""The OpenAPI document, and a storm of requests made up from it: no failure, and no answer it does not declare."""

import os
from contextlib import suppress

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from support.service.in_process import ADMIN, world
from support.waiting import run

LONG = os.environ.get("PLEROMA_LONG") == "1"
REQUESTS = 300 if LONG else 4
"""Of each operation."""
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


def test_every_operation_declares_its_errors_and_its_token(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            document = api.app.openapi()
            assert "HTTPValidationError" not in str(document)
            assert '"422"' not in str(document)
            for path, operations in document["paths"].items():
                for method, operation in operations.items():
                    assert operation["summary"]
                    if path.startswith("/v1"):
                        assert operation["security"] == [{"token": []}]
                        for status in ("400", "401", "403", "404", "413", "429", "503"):
                            shape = operation["responses"][status]["content"]["application/json"]["schema"]
                            assert shape == {"$ref": "#/components/schemas/ErrorAnswer"}
                        assert ("507" in operation["responses"]) == (method != "get")
                    else:
                        assert "security" not in operation

    run(main)


def test_examples_in_the_document_are_accepted(tmp_path):
    async def main():
        async with world(tmp_path, schema=False) as api:
            document = api.app.openapi()
            tried = 0
            for path in (
                "/v1/schemas",
                "/v1/advertisements",
                "/v1/subscriptions",
                "/v1/principals",
                "/v1/schemas/{name}/plan",
            ):
                method = "put" if path.endswith("plan") else "post"
                body = document["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"]
                model = document["components"]["schemas"][body["$ref"].rsplit("/", 1)[1]]
                for example in model["examples"]:
                    sent = example | ({"key": method + path} if "key" in example else {})
                    answer = await api(method.upper(), path.replace("{name}", "stock"), json=sent)
                    assert answer.is_success, answer.text
                    tried += 1
            assert tried == 5

    run(main)


def test_no_request_that_the_document_allows_or_forbids_breaks_the_service(tmp_path):
    """Through the application itself, so that thousands of requests take seconds."""

    async def main():
        async with world(tmp_path) as api:
            await api.advertise()
            await api.subscribe("price > 7")
            schema = schemathesis.openapi.from_dict(api.app.openapi())
            sent = 0
            for operation in (result.ok() for result in schema.get_all_operations()):
                if operation.path == "/v1/stream":
                    continue  # has no end; tests of its own
                for case in cases(operation):
                    request = case.as_transport_kwargs(base_url="http://test")
                    request["headers"] = {**request["headers"], "Authorization": f"Bearer {ADMIN}"}
                    request.pop("cookies", None)
                    request = {name: value for name, value in request.items() if value is not None}
                    if "data" in request:
                        data = request.pop("data")
                        request["content"] = data if isinstance(data, (bytes, str)) else str(data)
                    try:
                        answer = await api.client.request(**request)
                    except httpx.InvalidURL:  # longer than any server takes
                        continue
                    answer.read()
                    case.validate_response(schemathesis.Response.from_any(answer), checks=CHECKS)
                    sent += 1
            assert sent > REQUESTS * 25
            await api.subscribe("price > 7")  # it still works

    run(main, 900)


def cases(operation):
    """Requests for an operation, as it wants them and as it does not."""
    found = []
    for mode in schemathesis.GenerationMode:

        @settings(
            max_examples=REQUESTS,
            database=None,
            deadline=None,
            derandomize=not LONG,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(operation.as_strategy(generation_mode=mode))
        def draw(case):
            found.append(case)

        with suppress(Unsatisfiable):  # what takes nothing cannot be asked wrongly
            draw()
    return found
