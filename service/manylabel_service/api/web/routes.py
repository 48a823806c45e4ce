"""Routes: registration and description of endpoints.

`Router.endpoint` declares an operation: its path, its scopes, its response and its errors. FastAPI reads parameters,
validates what the endpoint returns, and serialises it. Frequent calls use `DirectRoute` and return a finished response,
because FastAPI needs more time to resolve the parameters of an endpoint than a prediction takes. Endpoints with long
responses return `json_response`: FastAPI takes 14 ms instead of 1.2 ms for a list of 1,000 labels.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from inspect import cleandoc
from typing import Any, TypeVar, get_type_hints

import pydantic_core
from fastapi import APIRouter
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from manylabel_service.access.grant import Scope as AccessScope
from manylabel_service.api.web.access import admitted, guarded, needed_by, needs
from manylabel_service.api.web.bodies import KEY_PARAMETER
from manylabel_service.api.web.parameters import Parameters
from manylabel_service.api.web.problems import ANYWHERE, MEDIA_TYPE, STATUS_AND_TITLE, ProblemDocument

Endpoint = Callable[..., Awaitable[Response]]
E = TypeVar("E", bound=Callable[..., Any])
RawHeaders = Sequence[tuple[bytes, bytes]]


SECURITY_SCHEMES: dict[str, dict[str, str]] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A key."},
    "basic": {"type": "http", "scheme": "basic", "description": "The password is a key; any user name is accepted."},
    "apiKey": {"type": "apiKey", "in": "header", "name": "api-key", "description": "A key."},
}
"""Ways to send a key, in OpenAPI."""


class GuardedRoute(APIRoute):
    """Route whose endpoint has declared the scopes that its callers need. Raises TypeError.

    The name of the endpoint is the id of the operation in OpenAPI; generated clients name their functions after it.
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


REFUSALS = ("key_required", "key_invalid", "scope_missing", "model_not_allowed", "rate_limited")
"""Error codes for callers without permission."""


def _with(answers: dict[int | str, dict[str, Any]], codes: Iterable[str]) -> dict[int | str, dict[str, Any]]:
    """Return the error responses of an operation, with those of more problems added."""
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
    """Raise TypeError for a route without a guard that does not declare that it needs no key."""
    for route in routes:
        if not isinstance(route, GuardedRoute):
            raise TypeError(f"{getattr(route, 'path', route)} is not a GuardedRoute: it would be served without a key")


class DirectRoute(GuardedRoute):
    """Route that calls its endpoint as ``await endpoint(request, **path_parameters)``, without FastAPI's parameters.

    `call` has the method, and the parts of the path before and after the name; None for another path.
    """

    def __init__(self, path: str, endpoint: Endpoint, **description: Any) -> None:
        super().__init__(path, endpoint, **description)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            with admitted(scope, self.scopes):
                response = await endpoint(Request(scope, receive, send), **scope["path_params"])
                await response(scope, receive, send)

        self.app = app
        before, name, after = path.partition("{name}")
        methods = self.methods or ()
        is_call = name and "/" not in after[1:] and "{" not in after and len(methods) == 1
        self.call: tuple[str, ...] | None = (*methods, before, after) if is_call else None


_OF_BODY = ("malformed_json", "body_too_large", "unsupported_media_type", "invalid_request")
_OF_KEY = ("idempotency_in_flight", "idempotency_key_reused", "storage_full")
_OF_STORE = ("not_ready", "storage_unavailable")


class Router(APIRouter):
    """Routes of one part of the interface.

    Parameters
    ----------
    tag : tag of its operations in OpenAPI.
    route_class : class of its routes.
    errors : error codes of each operation on a named object.
    error : schema and media type of errors.
    """

    def __init__(
        self,
        tag: str,
        route_class: type[GuardedRoute] = GuardedRoute,
        errors: Sequence[str] = (),
        error: tuple[type[BaseModel], str] = (ProblemDocument, MEDIA_TYPE),
    ) -> None:
        super().__init__(route_class=route_class, tags=[tag])
        self._errors, self._error = errors, error

    def endpoint(
        self,
        operation: str,
        summary: str,
        scopes: AccessScope | tuple[AccessScope, ...] | None,
        response: Any = None,
        errors: Iterable[str] = (),
        *,
        takes: type[BaseModel] | tuple[type[BaseModel] | None, ...] = (),
        example: Any = None,
        required: bool = True,
        query: type[Parameters] | None = None,
        keyed: bool = False,
        named: bool = True,
        stored: bool = True,
        status: int = 200,
        responses: Mapping[int | str, dict[str, Any]] | None = None,
        **description: Any,
    ) -> Callable[[E], E]:
        """Return a decorator that attaches an endpoint.

        Parameters
        ----------
        operation : method and path, such as ``"GET /v1/models"``.
        scopes : required scopes; None if no key is needed.
        response : type of the response.
        errors : error codes, except those of any request and those that follow from other parameters.
        takes, example, required : models of the JSON body, None for null; an example; whether a body is required.
        query : query parameters of an endpoint that reads them itself; parameters in its signature are found
            automatically.
        keyed : whether the header Idempotency-Key makes a retry safe.
        named : whether the object that the path names must exist.
        stored : whether the endpoint needs the store.
        responses : additional responses, by status.
        **description : other parameters of FastAPI's routes.
        """
        method, _, path = operation.partition(" ")
        names = () if scopes is None else (scopes,) if isinstance(scopes, str) else scopes
        models = takes if isinstance(takes, tuple) else (takes,)
        extra: dict[str, Any] = {**(body(*models, example=example, required=required) if models else {})}
        if keyed:
            extra.update(KEY_PARAMETER)
        extra.update(description.pop("openapi_extra", {}))
        codes = [*(self._errors if named and "{" in path else ()), *errors]
        codes += [*(_OF_BODY if models else ()), *(_OF_KEY if keyed else ()), *(_OF_STORE if stored else ())]

        def attach(endpoint: E) -> E:
            needs(*names)(endpoint)
            if status == 204:
                description.setdefault("response_class", Response)  # a response without a body has no media type
            models = [query] if query is not None else _queries(endpoint)
            if models:
                QUERIES[endpoint] = models
                codes.append("invalid_request")
            self.add_api_route(
                path,
                endpoint,
                methods=[method],
                summary=summary,
                response_model=response,
                status_code=status,
                responses={**(responses or {}), **problems(*dict.fromkeys(codes), error=self._error)},
                openapi_extra=extra,
                **description,
            )
            return endpoint

        return attach


QUERIES: dict[Callable[..., Any], list[type[Parameters]]] = {}
"""Query parameters of endpoints, which are described when the description is requested."""


def _queries(endpoint: Callable[..., Any]) -> list[type[Parameters]]:
    """Return the query parameters in the signature of an endpoint."""
    hints = get_type_hints(endpoint).values()
    return [hint for hint in hints if isinstance(hint, type) and issubclass(hint, Parameters)]


class RawJSONResponse(Response):
    """JSON response made from bytes, without Starlette's detection of the response type."""

    def __init__(self, content: bytes | bytearray, status: int = 200, headers: RawHeaders = ()) -> None:
        self.body = content  # type: ignore[assignment]  # never changed
        self.status_code = status
        self.background = None
        self.raw_headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(content)),
            *headers,
        ]


def json_response(document: object, status: int = 200) -> RawJSONResponse:
    """Return a document as a response; numbers that are not finite become null."""
    return RawJSONResponse(pydantic_core.to_json(document, inf_nan_mode="null"), status)


def body(
    *models: type[BaseModel] | None, media_type: str = "application/json", example: Any = None, required: bool = True
) -> dict[str, Any]:
    """Return the part of an operation's description that declares a body of one of these models."""
    return {"requestBody": {"required": required, **content(*models, media_type=media_type, example=example)}}


def content(*models: type[BaseModel] | None, media_type: str, example: Any = None) -> dict[str, Any]:
    """Return the part of a body's description that declares one of these models; without models, it declares bytes."""
    schemas: list[dict[str, Any]] = [{"type": "null"} if model is None else reference(model) for model in models]
    schema = {"anyOf": schemas} if len(schemas) > 1 else schemas[0] if schemas else {"format": "binary"}
    return {"content": {media_type: {"schema": schema, **({} if example is None else {"example": example})}}}


_IMPLIED = {
    "model_not_found": ("model_damaged", "follower_failed", "release_too_old", "replay_mismatch"),
    "storage_unavailable": ("storage_damaged", "release_too_old"),
}
"""Codes implied by others: an object that is looked up can be damaged, have failed, or need another release."""


def problems(
    *codes: str, error: tuple[type[BaseModel], str] = (ProblemDocument, MEDIA_TYPE)
) -> dict[int | str, dict[str, Any]]:
    """Return the error responses of an operation, by status, for its description."""
    by_status: dict[int | str, list[str]] = {}
    implied = [also for code in codes for also in _IMPLIED.get(code, ()) if also not in codes]
    for code in (*codes, *implied, *ANYWHERE):
        by_status.setdefault(STATUS_AND_TITLE[code][0], []).append(code)
    document, media_type = error
    content = {media_type: {"schema": reference(document)}}
    return {
        status: {"description": " or ".join(f"`{code}`" for code in codes), "content": content}
        for status, codes in sorted(by_status.items())
    }


REFERENCED: dict[str, type[BaseModel]] = {}
"""Models, by name, that the description refers to by `reference`, because FastAPI does not know them."""


def reference(model: type[BaseModel]) -> dict[str, str]:
    """Return the reference to the schema of a model in the description."""
    REFERENCED[model.__name__] = model
    return {"$ref": f"#/components/schemas/{model.__name__}"}
