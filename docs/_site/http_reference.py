"""The pages of the HTTP reference: every call and every schema, as the server's OpenAPI description has them."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from docs._site.description import Schema, description


def calls(document: Schema) -> str:
    """Return the part of the page about calls, in Markdown: a section for each tag, in the order of the routes."""
    by_tag: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            by_tag.setdefault(operation["tags"][0], []).append(_call(method.upper(), path, operation))
    return "\n".join(f"## {tag[0].upper()}{tag[1:]}\n\n" + "\n".join(found) for tag, found in by_tag.items())


def _call(method: str, path: str, operation: Schema) -> str:
    name = operation["operationId"]
    parts = [
        f"(call-{name})=\n### `{name}`",
        f"`{method} {path}`",
        operation["summary"] + ("" if operation["summary"].endswith("?") else "."),
        operation["description"],
    ]
    if manual := _manual(method, path):
        parts.append(f"More about it: [the HTTP reference](../{manual}).")
    if parameters := operation.get("parameters"):
        rows = [
            f"| `{each['name']}` | {each['in']}{', required' if each.get('required') else ''} "
            f"| {type_of(each['schema'])} | {_cell(each.get('description', ''))} |"
            for each in parameters
        ]
        parts.append("\n".join(["| parameter | in | type | |", "|---|---|---|---|", *rows]))
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        required = "" if operation["requestBody"].get("required") else ", can be omitted"
        parts.append(f"Body (`{media_type}`{required}): {type_of(content['schema'])}")
        if isinstance(example := content.get("example"), dict):
            parts.append(f"```json\n{json.dumps(example, indent=2)}\n```")
    rows = [
        f"| {status} | {_cell(answer['description'])} | {_contents(answer)} |"
        for status, answer in sorted(operation["responses"].items())
    ]
    parts.append("\n".join(["| status | | answer |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _contents(answer: Schema) -> str:
    found = [type_of(content.get("schema", {})) for content in answer.get("content", {}).values()]
    return " or ".join(dict.fromkeys(found))


_PAGES_OF_CALLS = ("http", "label-studio", "open-inference", "annif")
"""The pages of docs/ with a section for each call."""


@cache
def _headings() -> dict[str, str]:
    """Return the page of each heading, by its anchor."""
    found: dict[str, str] = {}
    for name in _PAGES_OF_CALLS:
        page = (Path(__file__).parents[1] / f"{name}.md").read_text()
        found |= {_anchor(each): f"{name}.md#{_anchor(each)}" for each in re.findall("^#+ (.*)$", page, re.M)}
    return found


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _manual(method: str, path: str) -> str | None:
    """Return where the docs have more about a call, if they have."""
    for written in (path, path.replace("{name}", "{m}")):
        if place := _headings().get(_anchor(f"{method} {written}")):
            return place
    return None


def schemas(document: Schema) -> str:
    """Return the part of the page about schemas, in Markdown, in the order of their names."""
    found = document["components"]["schemas"]
    return "\n".join(_schema(name, found[name]) for name in sorted(found))


def _schema(name: str, schema: Schema) -> str:
    parts = [f"(schema-{name.lower()})=\n## `{name}`"]
    if about := schema.get("description"):
        parts.append(about)
    if properties := schema.get("properties"):
        required = schema.get("required", [])
        rows = [
            f"| `{field}`{', required' if field in required else ''} | {type_of(each)} "
            f"| {_cell(each.get('description', ''))}{_default(each)} |"
            for field, each in properties.items()
        ]
        parts.append("\n".join(["| field | type | |", "|---|---|---|", *rows]))
    else:
        parts.append(type_of(schema))
    return "\n\n".join(parts) + "\n"


def _default(schema: Schema) -> str:
    if "default" not in schema:
        return ""
    return _cell(f" Default: `{json.dumps(schema['default'])}`.")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


_BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "minLength": "{} characters or more",
    "maxLength": "at most {} characters",
    "minItems": "{} or more of them",
    "maxItems": "at most {} of them",
    "pattern": "matches `{}`",
}


def type_of(schema: Schema) -> str:
    """Return what a schema allows, in words, as fits into a cell of a table."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#schema-{name.lower()})"
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(each)}`" for each in schema["enum"])
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(type_of(each) for each in schema[several]))
    bounds = [_cell(text.format(schema[key])) for key, text in _BOUNDS.items() if key in schema]
    return ", ".join([_base(schema), *bounds])


def _base(schema: Schema) -> str:
    kind = schema.get("type")
    if kind == "array":
        return f"list of {type_of(schema['items'])}" if "items" in schema else "list"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"object of {type_of(values)}" if isinstance(values, dict) and values else "object"
    if schema.get("format") == "binary":
        return "bytes"
    if kind is None:
        return "anything"
    return f"{kind} ({schema['format']})" if "format" in schema else str(kind)


_PAGES = {"reference/http": calls, "reference/schemas": schemas}


def fill(app: Any, docname: str, source: list[str]) -> None:
    """Put the reference behind what the page says itself."""
    if docname in _PAGES:
        source[0] += "\n" + _PAGES[docname](description())


def setup(app: Any) -> dict[str, bool]:
    """Connect it with Sphinx."""
    app.connect("source-read", fill)
    return {"parallel_read_safe": True}
