"""The API documentation as one page, made from the OpenAPI document, with a form to try each operation.

The usual pages load scripts from a content delivery network, which a controller seldom reaches. This one has its script
and style inside, and tells the browser to run and to ask nothing else.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: #1b1f24 }
h2 { border-bottom: 1px solid #d0d7de; margin-top: 2.5rem; text-transform: capitalize }
details { border: 1px solid #d0d7de; border-radius: 6px; margin: .5rem 0; padding: .4rem .8rem }
summary { cursor: pointer } summary code { font-weight: 600 } details[open] summary { margin-bottom: .6rem }
b.get { color: #0969da } b.post { color: #1a7f37 } b.put, b.patch { color: #9a6700 } b.delete { color: #cf222e }
table { border-collapse: collapse; margin: .4rem 0 1rem } td { padding: .1rem 1rem .1rem 0; vertical-align: top }
pre, output { background: #f6f8fa; border-radius: 6px; overflow-x: auto; padding: .6rem } .quiet { color: #57606a }
output { display: block; font: 13px/1.4 ui-monospace, monospace; max-height: 24rem; white-space: pre-wrap }
output:empty { display: none } textarea { box-sizing: border-box; font: 13px/1.4 ui-monospace, monospace; width: 100% }
#token { width: 26rem }
"""
_SCRIPT = files("pleroma.service.http").joinpath("docs_page.js").read_text(encoding="utf-8")

Doc = Mapping[str, Any]


def _source(text: str) -> str:
    """Text inside of the page as the browser is told of it: by its digest."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src {_source(_STYLE)}; script-src {_source(_SCRIPT)}; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def page(document: Doc) -> str:
    info = document["info"]
    groups: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            groups.setdefault(operation["tags"][0], []).append(_operation(document, path, method, operation))
    parts = (f"<h2>{escape(tag)}</h2>\n" + "\n".join(made) for tag, made in groups.items())
    title = f"{info['title']} {info['version']}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{escape(title)}</h1>\n"
        f"<p>{_text(info['description'])} Programs read <a href='/openapi.json'>/openapi.json</a>.</p>\n"
        f"<p><label>Token, sent with every request as <code>Authorization: Bearer plr_…</code>: "
        f"<input id='token' type='password' autocomplete='off' spellcheck='false'></label></p>\n"
        f"{''.join(parts)}<script>{_SCRIPT}</script></body></html>"
    )


def _operation(document: Doc, path: str, method: str, operation: Doc) -> str:
    inside = [f"<p>{_text(operation['description'])}</p>" if "description" in operation else ""]
    if parameters := operation.get("parameters"):
        inside.append(_table("Parameters", (_parameter(each) for each in parameters)))
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body is not None:
        inside += _content(document, "Body", body["schema"])
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            schema = answer.get("content", {}).get("application/json", {}).get("schema")
            inside += _content(document, f"Answer {status}", schema) if schema else [f"<p>Answer {status}</p>"]
    errors = [status for status in operation["responses"] if not status.startswith("2")]
    inside.append(f"<p class='quiet'>May also answer {', '.join(errors)}.</p>" if errors else "")
    inside.append(_form(document, path, method, operation))
    return (
        f"<details id='{method}{escape(path)}'><summary><b class='{method}'>{method.upper()}</b> "
        f"<code>{escape(path)}</code> {_text(operation.get('summary', ''))}</summary>{''.join(inside)}</details>"
    )


def _form(document: Doc, path: str, method: str, operation: Doc) -> str:
    """Fields for what the operation takes, with its example as the body; the script sends them."""
    fields = [_field(each) for each in operation.get("parameters", ()) if each["in"] in ("path", "query")]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body is not None:
        example: object = next(iter(_found(document, body["schema"]).get("examples", ())), {})
        text = json.dumps(example, indent=1)
        fields.append(
            f"<textarea rows='{min(text.count(chr(10)) + 1, 12)}' spellcheck='false'>{escape(text)}</textarea>"
        )
    return (
        f"<form data-method='{method.upper()}' data-path='{escape(path)}'>{''.join(fields)}"
        f"<p><button>Send</button> <button type='button'>Stop</button></p><output></output></form>"
    )


def _field(parameter: Doc) -> str:
    name, needed = escape(parameter["name"]), " required" if parameter.get("required") else ""
    return f"<p><label><code>{name}</code> <input name='{name}' autocomplete='off'{needed}></label></p>"


def _content(document: Doc, title: str, schema: Doc) -> Iterator[str]:
    found = _found(document, schema)
    fields = found.get("properties", {})
    required = found.get("required", ())
    if fields:
        yield _table(title, (_row(name, _found(document, each), name in required) for name, each in fields.items()))
    else:
        yield f"<p>{title}: {escape(_type(found))}</p>"
    for example in found.get("examples", ())[:1]:
        yield f"<pre>{escape(json.dumps(example, indent=1))}</pre>"


def _found(document: Doc, schema: Doc) -> Doc:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def _parameter(parameter: Doc) -> str:
    return _row(parameter["name"], parameter["schema"] | parameter, parameter.get("required", False))


def _row(name: str, schema: Doc, required: bool) -> str:
    example = next(iter(schema.get("examples", ())), None)
    shown = f" <span class='quiet'>such as {escape(json.dumps(example))}</span>" if _is_short(example) else ""
    kind = escape(_type(schema)) + ("" if required else ", optional")
    said = _text(schema.get("description", "")) + shown
    return f"<tr><td><code>{escape(name)}</code></td><td>{kind}</td><td>{said}</td></tr>"


def _is_short(example: object) -> bool:
    return example is not None and len(json.dumps(example)) < 60


def _type(schema: Doc) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[1])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def _table(title: str, rows: Iterator[str]) -> str:
    return f"<p><b>{escape(title)}</b></p><table>{''.join(rows)}</table>"


def _text(text: str) -> str:
    """Escaped text, with what is between back-ticks as code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))
