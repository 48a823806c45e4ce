"""Routes: how endpoints are attached and described.

Every endpoint says with ``@needs(scope)``, or ``@OPEN``, who may ask for it. FastAPI reads parameters and describes
answers. Endpoints return finished responses: validating an answer takes longer than making it, and the tests hold the
answers against the models. The few calls that make up a stream are attached with `DirectRoute`, since resolving an
endpoint's parameters takes FastAPI longer than a prediction. Bodies are declared with `body`, errors with `problems`.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from inspect import cleandoc
from typing import Any

import pydantic_core
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from manylabel_service.access.scopes import Scope as AccessScope
from manylabel_service.api.web.access import guarded, needed_by
from manylabel_service.api.web.problems import ANYWHERE, MEDIA_TYPE, STATUS_AND_TITLE, ProblemDocument

Endpoint = Callable[..., Awaitable[Response]]
RawHeaders = Sequence[tuple[bytes, bytes]]


SECURITY_SCHEMES: dict[str, dict[str, str]] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A key, or a token derived from one."},
    "basic": {"type": "http", "scheme": "basic", "description": "The password is a key; any user name will do."},
    "apiKey": {"type": "apiKey", "in": "header", "name": "api-key", "description": "A key, or a token."},
}
"""Ways to send a key, in OpenAPI."""


class GuardedRoute(APIRoute):
    """Route whose endpoint has declared the scopes that its callers need.

    The name of its endpoint is the id of the operation in OpenAPI, from which programs make names of functions.

    Attributes
    ----------
    scopes : all of them are needed; none if everybody may ask.

    Raises
    ------
    TypeError
        The endpoint has declared nothing.
    """

    def __init__(self, path: str, endpoint: Endpoint, **description: Any) -> None:
        self.scopes: tuple[AccessScope, ...] = needed_by(endpoint)
        description["operation_id"] = endpoint.__name__
        description["description"] = f"{cleandoc(endpoint.__doc__ or '')}\n\n{_needed(self.scopes)}"
        security = [{scheme: list(self.scopes)} for scheme in SECURITY_SCHEMES] if self.scopes else []
        description["openapi_extra"] = {**(description.get("openapi_extra") or {}), "security": security}
        if self.scopes:
            description["responses"] = _with(description["responses"], REFUSALS)
        super().__init__(path, endpoint, **description)
        self.app = guarded(self.app, self.scopes)


REFUSALS = ("key_required", "key_invalid", "scope_missing", "model_not_allowed", "rate_limited", "too_many_attempts")
"""Error codes for callers without permission."""


def _with(answers: dict[int | str, dict[str, Any]], codes: Iterable[str]) -> dict[int | str, dict[str, Any]]:
    """Return the responses of an operation with those of further problems, in the same form."""
    answers = dict(answers)
    for code in codes:
        status = STATUS_AND_TITLE[code][0]
        known = [answers[status]["description"]] if status in answers else []
        answers[status] = {**answers.get(500, problems()[500]), "description": " or ".join([*known, f"`{code}`"])}
    return answers


def _needed(scopes: Sequence[AccessScope]) -> str:
    if not scopes:
        return "Needs no key."
    names = " and ".join(f"`{scope}`" for scope in scopes)
    return f"Needs the scope{'s' if len(scopes) > 1 else ''} {names}."


def check_guarded(routes: Iterable[object]) -> None:
    """Raise TypeError if a route needs no key without having declared it."""
    for route in routes:
        if not isinstance(route, GuardedRoute):
            raise TypeError(f"{getattr(route, 'path', route)} is not a GuardedRoute: it would be served without a key")


class DirectRoute(GuardedRoute):
    """Route that calls its endpoint as ``await endpoint(request, **path_parameters)``, without FastAPI's parameters."""

    def __init__(self, path: str, endpoint: Endpoint, **description: Any) -> None:
        super().__init__(path, endpoint, **description)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            response = await endpoint(Request(scope, receive, send), **scope["path_params"])
            await response(scope, receive, send)

        self.app = guarded(app, self.scopes)


class JSONAnswer(Response):
    """JSON response from bytes that skips Starlette's detection of the response type."""

    def __init__(self, content: bytes, status: int = 200, headers: RawHeaders = ()) -> None:
        self.body = content
        self.status_code = status
        self.background = None
        self.raw_headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(content)),
            *headers,
        ]


def json_answer(document: object, status: int = 200, headers: RawHeaders = ()) -> JSONAnswer:
    """Return a document as a response; numbers that are not finite become null."""
    return JSONAnswer(pydantic_core.to_json(document, inf_nan_mode="null"), status, headers)


def listed(name: str, items: Iterable[object], damaged: Iterable[object]) -> dict[str, object]:
    """Return the document of a list, with the items that cannot be shown, if there are any."""
    document: dict[str, object] = {name: list(items)}
    if named := list(damaged):
        document["damaged"] = named
    return document


def body(
    *models: type[BaseModel], media_type: str = "application/json", example: Any = None, required: bool = True
) -> dict[str, Any]:
    """Return the part of an operation's description that declares a body of one of these models."""
    return {"requestBody": {"required": required, **content(*models, media_type=media_type, example=example)}}


def content(*models: type[BaseModel], media_type: str, example: Any = None) -> dict[str, Any]:
    """Return the part of a body's description that declares one of these models or, without any, bytes."""
    schemas: list[dict[str, Any]] = [reference(model) for model in models]
    schema = {"anyOf": schemas} if len(schemas) > 1 else schemas[0] if schemas else {"format": "binary"}
    return {"content": {media_type: {"schema": schema, **({} if example is None else {"example": example})}}}


_IMPLIED = {
    "model_not_found": ("model_damaged", "release_too_old", "replay_mismatch"),
    "storage_unavailable": ("storage_damaged",),
}
"""Codes implied by others: an object that is looked up can be damaged, or need another release."""


def problems(
    *codes: str, document: type[BaseModel] = ProblemDocument, media_type: str = MEDIA_TYPE
) -> dict[int | str, dict[str, Any]]:
    """Return the error responses of an operation, by status, for its description."""
    by_status: dict[int | str, list[str]] = {}
    implied = [also for code in codes for also in _IMPLIED.get(code, ()) if also not in codes]
    for code in (*codes, *implied, *ANYWHERE):
        by_status.setdefault(STATUS_AND_TITLE[code][0], []).append(code)
    content = {media_type: {"schema": reference(document)}}
    return {
        status: {"description": " or ".join(f"`{code}`" for code in codes), "content": content}
        for status, codes in sorted(by_status.items())
    }


def reference(model: type[BaseModel]) -> dict[str, str]:
    """Return the reference to the schema of a model in the description."""
    return {"$ref": f"#/components/schemas/{model.__name__}"}
