"""/docs: the interface on one plain page, which needs no script and no other server."""

import json
from collections import defaultdict
from html import escape
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from manylabel_service.api.web.routes import DirectRoute

router = APIRouter(route_class=DirectRoute)

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; border-top: 1px solid #ccc; padding-top: 1rem; }
h3 { margin-bottom: 0; } h2 b, h3 b { display: inline-block; min-width: 4.5rem; }
code, pre { font-size: 0.9em; background: #f4f4f4; } pre { padding: 0.6rem; overflow-x: auto; }
td, th { text-align: left; vertical-align: top; padding: 0.1rem 1rem 0.1rem 0; }
"""

_PLACES = defaultdict(lambda: "1", name="tags")
"""What stands in the paths of examples."""


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> Response:
    """The page."""
    return HTMLResponse(page(request.app.openapi(), str(request.base_url).rstrip("/")))


def page(document: dict[str, Any], base_url: str) -> str:
    """An OpenAPI document as HTML."""
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    paths = document["paths"].items()
    operations = [_operation(method, path, op, base_url) for path, ops in paths for method, op in ops.items()]
    schemas = [_schema(name, schema) for name, schema in sorted(document["components"]["schemas"].items())]
    return "\n".join(
        [
            f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{_STYLE}</style>",
            f"<h1>{title}</h1><p>{escape(document['info']['description'])}</p>",
            '<p>The same for programs: <a href="/openapi.json">/openapi.json</a></p>',
            *operations,
            "<h2>Bodies</h2>",
            *schemas,
        ]
    )


def _operation(method: str, path: str, operation: dict[str, Any], base_url: str) -> str:
    answers = "".join(
        f"<tr><th>{status}<td>{_links(answer) or escape(answer['description'])}"
        for status, answer in operation["responses"].items()
    )
    url = base_url + path.format_map(_PLACES)
    return (
        f"<h2><b>{method.upper()}</b> <code>{escape(path)}</code></h2>"
        f"<p><b>{escape(operation['summary'])}</b> {escape(operation.get('description', ''))}</p>"
        f"{_body(operation, url)}{_parameters(operation)}<table>{answers}</table>"
    )


def _body(operation: dict[str, Any], url: str) -> str:
    if "requestBody" not in operation:
        return ""
    media_type, content = next(iter(operation["requestBody"]["content"].items()))
    example = content.get("example")
    if example is None:
        return f"<p>Body: <code>{media_type}</code></p>"
    data = example if isinstance(example, str) else json.dumps(example)
    curl = f"curl {url} -H 'Content-Type: {media_type}' --data-binary '{data}'"
    return f"<p>Body: {_references(content['schema'])}</p><pre>{escape(curl)}</pre>"


def _parameters(operation: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(each['name'])}</code><td>{each['in']}<td>{escape(each['description'])}"
        for each in operation.get("parameters", [])
        if each["in"] != "path"
    )
    return rows and f"<table>{rows}</table>"


def _links(answer: dict[str, Any]) -> str:
    contents = answer.get("content", {}).items()
    return " or ".join(_references(one["schema"]) for media_type, one in contents if "problem" not in media_type)


def _references(schema: dict[str, Any]) -> str:
    names = [each["$ref"].rsplit("/", 1)[1] for each in schema.get("anyOf", [schema]) if "$ref" in each]
    return " or ".join(f'<a href="#{name}">{name}</a>' for name in names)


def _schema(name: str, schema: dict[str, Any]) -> str:
    required = schema.get("required", [])
    rows = "".join(
        f"<tr><td><code>{escape(field)}</code><td>{'required' if field in required else ''}"
        f"<td>{escape(facts.get('description', ''))}"
        for field, facts in schema.get("properties", {}).items()
    )
    text = escape(schema.get("description", ""))
    return f'<h3 id="{escape(name)}">{escape(name)}</h3><p>{text}</p><table>{rows}</table>'
