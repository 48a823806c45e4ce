"""Tools for agents (Model Context Protocol) that classify, teach and explain, and maintain labels."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict
from functools import wraps
from ipaddress import ip_address
from typing import Annotated, Any, ParamSpec

from manylabel_clients.http.client import AsyncClient
from manylabel_clients.http.errors import ManyLabelError
from manylabel_clients.http.resources.doubts import KindOfDoubt
from manylabel_clients.http.resources.label_health import KindOfSuggestion
from manylabel_clients.http.resources.models import AsyncModel
from manylabel_clients.http.responses import Suggestion
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
    """Return a value, but as text if the package `mcp` has parsed a text that was valid JSON."""
    return json.dumps(record, ensure_ascii=False) if record is None or isinstance(record, list) else record


Record = Annotated[
    str | Document, BeforeValidator(_as_text), Field(description="The example: a text, or an object of fields.")
]
Count = Annotated[int, Field(ge=1, le=100)]
SuggestedKind = Annotated[KindOfSuggestion, Field(description="Kind of the suggestion.")]
SuggestedLabel = Annotated[str, Field(description="Label of the suggestion.")]
Other = Annotated[str, Field(description="Its `into` or `parent`, if it has one.")]

MAX_SUGGESTIONS = 1_000
DRY_RUN_SECONDS = 300.0
"""Maximum seconds that a tool waits for a dry run, which then continues."""

INSTRUCTIONS = (
    "Models that learn to give records any number of labels. `classify` predicts labels. `teach` submits true labels, "
    "which are learnt at once. `explain` says why labels are predicted. `list_labels` has labels with their meaning. "
    "`review_next` lists stored predictions, most informative first; label them by `teach` with their id. "
    "`list_suggestions` lists changes of labels to consider, such as two names for one thing; `apply_suggestion` makes "
    "one, and `undo` takes it back. `list_doubts` lists labels of learnt examples that may be missing or wrong; "
    "`correct` corrects or confirms them. Many suggestions and doubts are mistaken: change only what a person confirms."
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
        except (ManyLabelError, ValueError, TypeError, TimeoutError) as error:
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

    @_telling
    async def list_suggestions(
        self,
        context: Context,
        model: ModelName = "",
        kind: Annotated[KindOfSuggestion | None, Field(description="The only kind.")] = None,
        limit: Annotated[Count, Field(description="Number of suggestions of each kind, the strongest first.")] = 20,
    ) -> Document:
        """List suggested changes of labels with evidence: to merge two labels, to put one under another, to pause an
        unused one, to define one better. Nothing is changed.
        """
        async with self._asked(context, model) as asked:
            found = await asked.health(kind, top=limit)
        shown = [{**asdict(each), "request": each.request is not None} for each in found.suggestions]
        return {"examined": found.examined, "suggestions": shown}

    @_telling
    async def dry_run(
        self, kind: SuggestedKind, label: SuggestedLabel, context: Context, other: Other = "", model: ModelName = ""
    ) -> Document:
        """Compare the metrics of a model without and with a suggested change, by learning its examples again. The model
        does not change. This can take minutes.
        """
        async with self._asked(context, model) as asked:
            job = await asked.dry_run(await _found(asked, kind, label, other))
            done = await job.wait(DRY_RUN_SECONDS)
        return {"result": done.result}

    @_telling
    async def apply_suggestion(
        self, kind: SuggestedKind, label: SuggestedLabel, context: Context, other: Other = "", model: ModelName = ""
    ) -> Document:
        """Make a change that `list_suggestions` lists with `request` true. `undo` with the returned position reverts
        it.
        """
        async with self._asked(context, model) as asked:
            done = await asked.apply(await _found(asked, kind, label, other))
        return {"updates": done.updates, "position": done.position}

    @_telling
    async def undo(
        self,
        position: Annotated[str, Field(description="Position that the change returned.")],
        context: Context,
        model: ModelName = "",
    ) -> Document:
        """Undo a change of labels. Later updates stay learnt."""
        async with self._asked(context, model) as asked:
            done = await asked.undo(position)
        return {"updates": done.updates, "position": done.position, "how": done.how}

    @_telling
    async def list_doubts(
        self,
        context: Context,
        model: ModelName = "",
        kind: Annotated[
            KindOfDoubt, Field(description="Labels that may be missing; or wrong, of which more than half are right.")
        ] = "missing",
        limit: Annotated[Count, Field(description="Number of doubts, the most doubtful first.")] = 20,
    ) -> Document:
        """List labels of learnt examples that the rest of the stream contradicts, with evidence, from the newest
        search (`manylabel doubts --search`).
        """
        async with self._asked(context, model) as asked:
            found = await asked.doubts(kind, top=limit)
        return {"examined": found.examined, "doubts": [_plain(asdict(each)) for each in found.doubts]}

    @_telling
    async def correct(
        self,
        position: Annotated[str, Field(description="Position of the example in `list_doubts`.")],
        labels: Annotated[
            dict[str, bool],
            Field(description="The checked labels: true if the example has the label. The others stay as they are."),
        ],
        context: Context,
        index: Annotated[int, Field(ge=0, description="Index of the example in `list_doubts`.")] = 0,
        model: ModelName = "",
    ) -> Document:
        """Correct labels of a learnt example, or confirm those that it has. They count as checked by a person."""
        async with self._asked(context, model) as asked:
            done = await asked.correct(position, labels, index=index)
        return {"updates": done.updates, "position": done.position}


def _plain(fields: Document) -> Document:
    """Return fields by their JSON names."""
    return {name.rstrip("_"): value for name, value in fields.items()}


async def _found(asked: AsyncModel, kind: KindOfSuggestion, label: str, other: str) -> Suggestion:
    """Return a listed suggestion, with its current request."""
    for each in (await asked.health(kind, top=MAX_SUGGESTIONS)).suggestions:
        if (each.label, each.into or each.parent or "") == (label, other):
            return each
    raise ToolError("there is no such suggestion; list_suggestions returns the existing suggestions")


class TeacherTools(Tools):
    """Tools of an agent that is the teacher of a model which promises parity.

    An agent alternates `classify` and `teach`. The only other tool is `list_labels`: all others show the model's
    answer, and a teacher who has seen the answer tends to agree, so that audits would find no errors.
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
            raise ToolError("the model promises no parity: run manylabel models set-promise MODEL --parity 0.95")
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
    """Return the server of the tools; with `teacher`, the tools of an agent that is the teacher of a model."""
    if teacher:
        made = MCPServer("manylabel", instructions=TEACHER_INSTRUCTIONS, log_level="WARNING")
        taught = TeacherTools(connect, model)
        made.add_tool(taught.list_labels, annotations=ToolAnnotations(read_only_hint=True))
        for change in (taught.classify, taught.teach):
            made.add_tool(change, annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False))
        return made
    made = MCPServer("manylabel", instructions=INSTRUCTIONS, log_level="WARNING")
    tools = Tools(connect, model)
    for reading in (tools.explain, tools.list_labels, tools.review_next, tools.list_suggestions, tools.list_doubts):
        made.add_tool(reading, annotations=ToolAnnotations(read_only_hint=True))
    for adding in (tools.classify, tools.teach, tools.dry_run):
        made.add_tool(adding, annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False))
    for replacing in (tools.correct, tools.apply_suggestion, tools.undo):
        made.add_tool(replacing, annotations=ToolAnnotations(read_only_hint=False, destructive_hint=True))
    return made


def http_app(tools: MCPServer, host: str) -> ASGIApp:
    """Return the ASGI application that serves tools at ``/mcp``, for a server that listens on `host`.

    It accepts only POST: calls are independent, so a stream of events (GET) would stay empty. It rejects browsers,
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
    """Return a function that connects every call through this client."""

    @asynccontextmanager
    async def connect(_: Mapping[str, str] | None) -> AsyncIterator[AsyncClient]:
        yield client

    return connect


def with_keys_of_callers(make: Callable[[Mapping[str, str]], AsyncClient], needed: bool) -> Connect:
    """Return a function that connects each call with the key in the header Authorization of the caller.

    Parameters
    ----------
    make : function that returns a client with these headers.
    needed : whether to reject calls without a key here, instead of in the server.
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
