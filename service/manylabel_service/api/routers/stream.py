"""POST /v1/models/{name}/stream: NDJSON in, NDJSON out."""

import asyncio
from typing import Annotated, Any, Literal

import pydantic_core
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from manylabel_core.records import RecordEncoder
from manylabel_service.api import schemas
from manylabel_service.api.context import Context, context_of
from manylabel_service.api.schemas.base import At, ResponseModel
from manylabel_service.api.schemas.learning import Prediction
from manylabel_service.api.translation.from_json import to_example
from manylabel_service.api.translation.line_learner import LineLearner, StreamFailed, StreamSummary
from manylabel_service.api.translation.line_reader import ReadAhead
from manylabel_service.api.translation.model_access import online
from manylabel_service.api.web.bodies import A_LINE, NDJSON, check_headers, described_key, json_value, key_text
from manylabel_service.api.web.large_json import LARGE_BYTES, ParseQueue, read_value
from manylabel_service.api.web.parameters import Flag, Number, Parameters, read_parameters, wrong
from manylabel_service.api.web.problems import Problem, ProblemDocument, problem_of
from manylabel_service.api.web.routes import DirectRoute, Router, content
from manylabel_service.api.web.streaming import Writer, in_background
from manylabel_service.errors import NoProbabilities, NotReady
from manylabel_service.hosting.examples import Example

router = Router("learning", DirectRoute, errors=["model_not_found", "model_is_trained"])


class Streaming(Parameters):
    """Parameters of a stream."""

    first: Annotated[Number, Field(alias="from")] = 1
    """Number of the first line."""
    probabilities: Flag = False
    """Whether the response has the probability of every label."""
    answers: Literal["all", "errors"] = "all"
    """`errors`: the response has only the rejected lines and a summary. No prediction is computed, and a client can
    send the whole stream before it reads."""
    stop: Flag = False
    """Whether the stream ends at the first rejected line: that line and later ones are not learnt."""


class LineLearnt(Prediction, At):
    """Response to a line whose example was predicted, then learnt."""

    line: int
    """Number of the line."""
    updates: int
    """Number of examples that the model had learnt, including this one."""


class LineReplayed(At):
    """Response to a line that was learnt earlier."""

    line: int
    """Number of the line."""
    replayed: Literal[True]


class LineRefused(ResponseModel):
    """Response to a line that was not learnt. If it is the last line of the response, later lines were not learnt
    either."""

    line: int
    """Number of the line."""
    error: ProblemDocument
    """Problem document with the reason."""
    retry_after: int | None = None
    """Seconds after which the stream can continue with this line; present only if the stream ended."""


@router.endpoint(
    "POST /v1/models/{name}/stream",
    "Predict, then learn, line by line",
    "learn",
    None,
    ["model_follows", "unsupported_media_type", "invalid_request"],
    responses={
        200: {
            "description": "A line for each line; with `answers=errors` for each rejected line, then a summary",
            **content(
                LineLearnt,
                LineReplayed,
                LineRefused,
                StreamSummary,
                media_type="application/x-ndjson",
            ),
        }
    },
    query=Streaming,
    response_class=Response,
    openapi_extra={
        "requestBody": {
            "required": True,
            **content(
                schemas.UpdateItem,
                media_type="application/x-ndjson",
                example='{"x": {"word=cat": 1}, "y": ["pets"]}\n{"x": {"word=dog": 1}, "y": ["pets"]}\n',
            ),
        },
        "parameters": [described_key("Name of the stream: lines that were learnt under it are not learnt again.")],
    },
)
async def stream(request: Request, name: str) -> Response:
    """Predicts and learns each line, and returns a line for each: the prediction made just before the example was
    learnt, or the error of the line. Lines after a rejected one are still learnt, except with `stop`. Lines that arrive
    together are learnt together."""
    context = context_of(request)
    check_headers(request, NDJSON, None)
    key = key_text(request)
    wanted = read_parameters(request, Streaming)
    replica = online(await context.registry.get(name))
    replica.check_leads()
    if wanted.probabilities and not replica.has_probabilities:
        raise wrong("probabilities", NoProbabilities().detail)
    errors_only = wanted.answers == "errors"
    if wanted.probabilities and errors_only:
        raise wrong("probabilities", "must be false with answers=errors, which computes no predictions")
    learner = LineLearner(context, replica, key, request.scope, wanted.probabilities, errors_only, wanted.stop)
    return _StreamResponse(context, learner, replica.records, wanted.first, errors_only, context.turns)


class _StreamResponse(Response):
    """Response that reads lines, learns them, and writes a line for each.

    Lines are read while earlier ones are being learnt, a few blocks ahead. While the client does not read the response,
    nothing is learnt, and then nothing is read (backpressure).
    """

    def __init__(
        self,
        context: Context,
        learner: LineLearner,
        records: RecordEncoder,
        number: int,
        errors_only: bool,
        turns: ParseQueue,
    ) -> None:
        self._context = context
        self._records = records
        self._learner = learner
        self._number = number
        self._errors_only = errors_only
        self._turns = turns
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        settings = self._context.settings
        idle_seconds = settings.limits.idle_timeout_seconds
        lines = ReadAhead(receive, self._example, self._number, settings.max_body_bytes, idle_seconds)
        writer = Writer(scope, send, idle_seconds)

        async def drain() -> None:
            await self._context.draining.wait()
            lines.end(problem_of(NotReady("the server is stopping")))

        async with in_background(lines.run, drain) as (reading, _):
            await asyncio.sleep(0)  # request the body before the response begins, because some clients wait for that
            await writer.start(b"application/x-ndjson")
            await self._respond(lines, writer)
            if reading.done():
                reading.result()
            await writer.end()

    async def _example(self, line: bytes) -> Example:
        if len(line) < LARGE_BYTES:
            return self._converted(json_value(line, A_LINE))
        async with self._turns.turn(line):
            return self._converted(await read_value(line, A_LINE))

    def _converted(self, item: Any) -> Example:
        settings = self._context.settings
        most = settings.max_features, settings.limits.max_record_fields
        return to_example(item, (), most[0], self._records, max_fields=most[1])

    async def _respond(self, lines: ReadAhead, writer: Writer) -> None:
        learner = self._learner
        problem: Problem | None
        try:
            while block := await lines.take():
                async for portion in learner.responses(block):
                    await writer.write(portion)
        except StreamFailed as failed:
            number, problem = failed.number, failed.problem
        else:
            number, problem = lines.next_number, lines.problem
        if problem is not None:
            await writer.write(_line(learner.refusal(number, problem, last=True)))
        if self._errors_only:
            learner.summary.next = number
            await writer.write(_line(learner.summary))


def _line(document: object) -> bytes:
    return pydantic_core.to_json(document) + b"\n"
