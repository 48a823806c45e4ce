"""Tools for agents (Model Context Protocol): classify, teach, explain, list_labels, review_next."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict
from functools import wraps
from ipaddress import ip_address
from typing import Annotated, Any, ParamSpec

from manylabel_clients.http.client import AsyncClient
from manylabel_clients.http.errors import ManyLabelError
from manylabel_clients.http.resources.models import AsyncModel
from manylabel_extras import require

require(__name__, "mcp")

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BeforeValidator, Field
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

Connect = Callable[[Mapping[str, str] | None], AbstractAsyncContextManager[AsyncClient]]
"""Function that returns a client of the server for the headers of a tool request, None on standard input and output."""

P = ParamSpec("P")
Document = dict[str, Any]

ModelName = Annotated[str, Field(description="Name of the model; optional if the server was started for one model.")]


def _as_text(record: Any) -> Any:
    """Return a text that the package `mcp` has parsed, because it was JSON, as a text again; an object stays."""
    return json.dumps(record, ensure_ascii=False) if record is None or isinstance(record, list) else record


Record = Annotated[
    str | Document, BeforeValidator(_as_text), Field(description="The example: a text, or an object of fields.")
]
Count = Annotated[int, Field(ge=1, le=100)]

INSTRUCTIONS = (
    "Models that learn to give records any number of labels. `classify` predicts labels. `teach` submits true labels, "
    "which are learnt at once. `explain` says why labels are predicted. `list_labels` has labels with their meaning. "
    "`review_next` lists stored predictions, most informative first; label them by `teach` with their id."
)

TEACHER_INSTRUCTIONS = (
    "Models that label records, and learn from you what they are not sure of. Call `classify` for each record. It "
    "returns the labels, or `ask` with an `id`: then read the record, choose among the labels of `list_labels`, and "
    "submit them by `teach`. Never submit labels for a record for which it did not ask."
)
TEACHER_SOURCE = "machine"
"""Source of an agent's labels, as in the promise."""


def _telling(tool: Callable[P, Awaitable[Document]]) -> Callable[P, Awaitable[Document]]:
    """Convert errors of the server and of arguments to tool errors."""

    @wraps(tool)
    async def call(*args: P.args, **kwargs: P.kwargs) -> Document:
        try:
            return await tool(*args, **kwargs)
        except (ManyLabelError, ValueError, TypeError) as error:
            raise ToolError(str(error)) from error

    return call


class Tools:
    """Tools of one server.

    Parameters
    ----------
    connect : Connect
    model : default model of calls; None if each call must name one.
    """

    def __init__(self, connect: Connect, model: str | None = None) -> None:
        self._connect = connect
        self._model = model

    @asynccontextmanager
    async def _asked(self, context: Context, name: str) -> AsyncIterator[AsyncModel]:
        async with self._connect(context.headers) as client:
            chosen = name or self._model
            if not chosen:
                names = ", ".join(sorted(status.name for status in await client.models()))
                raise ToolError(f"name a model, one of: {names}" if names else "the server has no models")
            yield client.model(chosen)

    @_telling
    async def classify(
        self,
        record: Record,
        context: Context,
        model: ModelName = "",
        top: Annotated[Count, Field(description="Number of labels with scores, the best first.")] = 10,
        probabilities: Annotated[
            bool, Field(description="Return probabilities of labels; not every model has them.")
        ] = True,
        keep: Annotated[bool, Field(description="Store the prediction, for `review_next` and `teach`.")] = False,
    ) -> Document:
        """Predict the labels of a record, with the scores of the best labels; labels with a score above 0 are
        predicted.
        """
        async with self._asked(context, model) as asked:
            found = await asked.predict(record, top=top, probabilities=probabilities, keep="record" if keep else False)
        shown = ("labels", "scores", "probabilities", "id", "expires", "position")
        return {name: value for name in shown if (value := getattr(found, name)) is not None}

    @_telling
    async def teach(
        self,
        labels: Annotated[list[str], Field(description="All true labels; every other label counts as false.")],
        context: Context,
        record: Annotated[Record | None, Field(description="The example, unless `id` is set.")] = None,
        id: Annotated[str | None, Field(description="Id of a stored prediction.")] = None,
        model: ModelName = "",
    ) -> Document:
        """Submit the true labels of a record or of a stored prediction. They are learnt when this returns."""
        async with self._asked(context, model) as asked:
            if id is not None and record is None:
                told = await asked.label(id, labels)
            elif record is not None and id is None:
                told = await asked.update(record, labels)
            else:
                raise ToolError("send either record or id")
        return {"updates": told.updates, "position": told.position}

    @_telling
    async def explain(
        self,
        record: Record,
        context: Context,
        model: ModelName = "",
        features: Annotated[Count, Field(description="Number of features for each label, and against it.")] = 5,
    ) -> Document:
        """Explain each predicted label of a record by the features for and against it."""
        async with self._asked(context, model) as asked:
            found = await asked.predict(record, explain=features)
        why = {label: asdict(each) for label, each in (found.explanations or {}).items()}
        return {"labels": found.labels, "explanations": {name: {"for": e.pop("for_"), **e} for name, e in why.items()}}

    @_telling
    async def list_labels(
        self,
        context: Context,
        model: ModelName = "",
        limit: Annotated[Count, Field(description="Number of labels, the most frequent first.")] = 100,
        offset: Annotated[int, Field(ge=0, description="Number of labels to skip.")] = 0,
    ) -> Document:
        """List the labels of a model with title, meaning and number of examples."""
        async with self._asked(context, model) as asked:
            page = await asked.labels(limit=limit, offset=offset)
        shown = ("label", "title", "description", "examples", "retired", "paused")
        return {"labels": [{name: getattr(each, name) for name in shown} for each in page.labels], "total": page.total}

    @_telling
    async def review_next(
        self,
        context: Context,
        model: ModelName = "",
        limit: Annotated[Count, Field(description="Number of predictions.")] = 5,
    ) -> Document:
        """List stored predictions without labels, most informative first."""
        async with self._asked(context, model) as asked:
            page = await asked.predictions(order="uncertainty", limit=limit)
        return {"predictions": [asdict(each) for each in page.predictions]}


class TeacherTools(Tools):
    """Tools of an agent that is the teacher of a model which promises parity.

    `classify` and `teach` are the loop. The other tools are not offered, except `list_labels`: they show the model's
    answer, and a teacher who has seen it agrees, so that audits find nothing.
    """

    @_telling
    async def classify(  # type: ignore[override]  # what an agent may ask for is less
        self, record: Record, context: Context, model: ModelName = ""
    ) -> Document:
        """Return the labels of a record if the model is sure of them. If `ask` is true instead, decide on the labels
        yourself, and submit them by `teach` with the `id`.
        """
        async with self._asked(context, model) as asked:
            found = await asked.predict(record, keep=True)
        if found.ask is None:
            raise ToolError("the model promises no parity: manylabel models set-promise MODEL --parity 0.95")
        if found.ask:
            return {"ask": True, "id": found.id, "expires": found.expires}
        return {"ask": False, "labels": found.labels}

    @_telling
    async def teach(  # type: ignore[override]  # it submits labels by id only
        self,
        id: Annotated[str, Field(description="Id that `classify` returned with `ask`.")],
        labels: Annotated[list[str], Field(description="All labels that fit; none is allowed.")],
        context: Context,
        model: ModelName = "",
    ) -> Document:
        """Submit the labels of a record for which `classify` asked. They are learnt when this returns."""
        async with self._asked(context, model) as asked:
            told = await asked.label(id, labels, source=TEACHER_SOURCE)
        return {"updates": told.updates, "position": told.position}


def server(connect: Connect, model: str | None = None, *, teacher: bool = False) -> MCPServer:
    """Return the server of the tools; with `teacher`, those of an agent that is the teacher of a model."""
    if teacher:
        made = MCPServer("manylabel", instructions=TEACHER_INSTRUCTIONS, log_level="WARNING")
        taught = TeacherTools(connect, model)
        made.add_tool(taught.list_labels, annotations=ToolAnnotations(read_only_hint=True))
        for change in (taught.classify, taught.teach):
            made.add_tool(change, annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False))
        return made
    made = MCPServer("manylabel", instructions=INSTRUCTIONS, log_level="WARNING")
    tools = Tools(connect, model)
    for tool in (tools.classify, tools.explain, tools.list_labels, tools.review_next):
        made.add_tool(tool, annotations=ToolAnnotations(read_only_hint=tool is not tools.classify))
    made.add_tool(tools.teach, annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False))
    return made


def http_app(tools: MCPServer, host: str) -> ASGIApp:
    """Return the ASGI application that serves tools at ``/mcp``, for a server that listens on `host`.

    It accepts POST alone: calls are independent, so a stream of events (GET) would stay empty. It rejects browsers,
    which send the header Origin, except pages of this machine on a loopback address.
    """
    app = tools.streamable_http_app(host=host, stateless_http=True, json_response=True)

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
        elif scope["method"] != "POST":
            await PlainTextResponse("only POST is allowed", 405, {"Allow": "POST"})(scope, receive, send)
        elif not is_loopback(host) and "origin" in Headers(scope=scope):
            await PlainTextResponse("browsers are not allowed", 403)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return checked


def with_one_key(client: AsyncClient) -> Connect:
    """Return a connection that makes every call with this client."""

    @asynccontextmanager
    async def connect(_: Mapping[str, str] | None) -> AsyncIterator[AsyncClient]:
        yield client

    return connect


def with_keys_of_callers(make: Callable[[Mapping[str, str]], AsyncClient], needed: bool) -> Connect:
    """Return a connection that makes each call with the key in the header Authorization of its caller.

    Parameters
    ----------
    make : function that returns a client with these headers.
    needed : whether calls without a key are rejected here, not by the server.
    """

    @asynccontextmanager
    async def connect(headers: Mapping[str, str] | None) -> AsyncIterator[AsyncClient]:
        sent = (headers or {}).get("authorization")
        if sent is None and needed:
            raise ToolError("a key of the server is needed: send the header Authorization: Bearer KEY")
        async with make({} if sent is None else {"Authorization": sent}) as client:
            yield client

    return connect


def is_loopback(host: str) -> bool:
    """Return whether an address is local to this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
