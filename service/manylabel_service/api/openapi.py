"""OpenAPI description at /openapi.json, and the page at /docs that shows it."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import HTMLResponse

from manylabel_service import names, ulid
from manylabel_service.access import key_text
from manylabel_service.api.web.parameters import described
from manylabel_service.api.web.routes import QUERIES, REFERENCED, SECURITY_SCHEMES, reference
from manylabel_service.jobs.spec.trainers import PARAMS
from manylabel_service.storage import POSITION

_DESCRIPTION = """Multi-label models that learn from a stream.

Every error is a problem document (RFC 9457) with a `code` for programs. Examples come as a list of numbers,
as `{"indices": [...], "values": [...]}`, as an object of names and numbers, or as a record with text, categories
and flags. Labels come as a list, the
complete set, or as an object of names and true or false, where labels not named are unknown."""

_IN_PATHS: dict[str, dict[str, Any]] = {
    "name": {"type": "string", "pattern": names.PATTERN},
    "position": {"type": "string", "pattern": POSITION},
    "version": {"type": "integer", "minimum": 1},
    "id": {"type": "string", "pattern": ulid.PATTERN.lower()},
    "key_id": {"type": "string", "pattern": key_text.ID_PATTERN},
}
"""Schemas of the path parameters, by name; a parameter has the same schema in every path."""


_FILES = "static-offline-docs"
"""Path of the files of the page, which fastapi_offline serves."""


def add_page(app: FastAPI) -> None:
    """Add the page /docs. Its addresses are relative, so it works behind a proxy that removes a prefix of the path."""

    async def docs(_: Request) -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url="openapi.json",
            title=f"{app.title} - Swagger UI",
            swagger_js_url=f"{_FILES}/swagger-ui-bundle.js",
            swagger_css_url=f"{_FILES}/swagger-ui.css",
            swagger_favicon_url=f"{_FILES}/favicon.png",
            swagger_ui_parameters={"validatorUrl": None},  # the default sends the description to a remote validator
        )

    app.add_route("/docs", docs, include_in_schema=False)


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the cached OpenAPI document of an application."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=_DESCRIPTION, routes=app.routes)
        params = [reference(model) for model in PARAMS.values()]
        described = {route.response_model for route in app.routes if isinstance(route, APIRoute)}
        _, referenced = models_json_schema(
            [(model, "validation") for model in REFERENCED.values() if model not in described],
            ref_template="#/components/schemas/{model}",
        )
        schemas = document["components"]["schemas"]
        schemas.update(_any_of(referenced["$defs"]))
        schemas["JobSpec"]["properties"]["params"]["anyOf"] = params
        document["components"]["securitySchemes"] = SECURITY_SCHEMES
        document["servers"] = [{"url": "."}]  # relative to the description itself (OpenAPI 3.1, 4.8.5)
        _drop_defaults_of_fastapi(document)
        _describe_paths(document)
        _describe_queries(app, document)
        app.openapi_schema = document
    return app.openapi_schema


def _any_of(schema: Any) -> Any:
    """Return the schema with anyOf instead of oneOf, because 2 is both an integer and a number, and would match two
    alternatives."""
    if isinstance(schema, list):
        return [_any_of(part) for part in schema]
    if isinstance(schema, dict):
        return {"anyOf" if key == "oneOf" else key: _any_of(part) for key, part in schema.items()}
    return schema


def _drop_defaults_of_fastapi(document: dict[str, Any]) -> None:
    """Remove FastAPI's default 422 response, which has another format, from every operation."""
    for operations in document["paths"].values():
        for operation in operations.values():
            answer = operation["responses"].get("422", {})
            if "HTTPValidationError" in str(answer):
                del operation["responses"]["422"]
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)


def _describe_queries(app: FastAPI, document: dict[str, Any]) -> None:
    """Add the query parameters of the endpoints."""
    for route in app.routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            parameters = [each for model in QUERIES.get(route.endpoint, ()) for each in described(model)]
            for method in route.methods or ():
                operation = document["paths"][route.path_format][method.lower()]
                if parameters:
                    operation["parameters"] = [*operation.get("parameters", ()), *parameters]


def _describe_paths(document: dict[str, Any]) -> None:
    """Describe the path parameters. FastAPI accepts any string; the endpoint returns 404 for an invalid one."""
    for operations in document["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "path":
                    parameter["schema"] = {**parameter["schema"], **_IN_PATHS[parameter["name"]]}
