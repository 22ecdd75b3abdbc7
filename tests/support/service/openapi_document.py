"""The OpenAPI document as a judge of answers: the status is declared and the body has the declared shape."""

import json
import re
from typing import Any, ClassVar

import httpx
import jsonschema_rs
from fastapi import FastAPI


class OpenApiDocument:
    _only: ClassVar["OpenApiDocument | None"] = None

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.paths = [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path) + "$"), path) for path in document["paths"]]
        self.validators: dict[object, Any] = {}

    @classmethod
    def of(cls, app: FastAPI) -> "OpenApiDocument":
        """The same for every application, and long in the making."""
        if cls._only is None:
            cls._only = cls(app.openapi())
        return cls._only

    def template(self, path: str) -> str | None:
        plain = [template for pattern, template in self.paths if pattern.fullmatch(path)]
        return min(plain, key=lambda template: template.count("{"), default=None)

    def check(self, method: str, path: str, answer: httpx.Response) -> None:
        template = self.template(httpx.URL(path).path)
        operation = self.document["paths"].get(template, {}).get(method.lower())
        status = answer.status_code
        if operation is None:
            assert status >= 400
            self._validate("error", {"$ref": "#/components/schemas/ErrorAnswer"}, answer)
            return
        assert str(status) in operation["responses"], f"{method} {template} does not declare {status}: {answer.text}"
        content = operation["responses"][str(status)].get("content", {})
        if not content:
            assert answer.content == b""
            return
        kind = answer.headers["content-type"].split(";")[0]
        assert kind in content, (method, template, status, kind)
        if kind == "application/json":
            self._validate((method, template, status), content[kind]["schema"], answer)

    def _validate(self, name: object, schema: dict[str, Any], answer: httpx.Response) -> None:
        if name not in self.validators:
            whole = {**schema, "components": self.document["components"]}
            self.validators[name] = jsonschema_rs.validator_for(whole)
        self.validators[name].validate(json.loads(answer.content))
