"""The API documentation as one page, made from the OpenAPI document: no scripts, and nothing from other sites.

The usual pages load scripts from a content delivery network, which a controller seldom reaches.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: #1b1f24 }
h2 { border-bottom: 1px solid #d0d7de; margin-top: 2.5rem; text-transform: capitalize }
details { border: 1px solid #d0d7de; border-radius: 6px; margin: .5rem 0; padding: .4rem .8rem }
summary { cursor: pointer } summary code { font-weight: 600 } details[open] summary { margin-bottom: .6rem }
b.get { color: #0969da } b.post { color: #1a7f37 } b.put { color: #9a6700 } b.delete { color: #cf222e }
table { border-collapse: collapse; margin: .4rem 0 1rem } td { padding: .1rem 1rem .1rem 0; vertical-align: top }
pre { background: #f6f8fa; border-radius: 6px; overflow-x: auto; padding: .6rem } .quiet { color: #57606a }
"""

Doc = Mapping[str, Any]


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
        f"<p>Send a token with every request: <code>Authorization: Bearer plr_…</code></p>\n"
        f"{''.join(parts)}</body></html>"
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
    return (
        f"<details id='{method}{escape(path)}'><summary><b class='{method}'>{method.upper()}</b> "
        f"<code>{escape(path)}</code> {_text(operation.get('summary', ''))}</summary>{''.join(inside)}</details>"
    )


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
