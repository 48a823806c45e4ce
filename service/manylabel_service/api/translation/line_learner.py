"""Learning of the lines of a stream in blocks, and the response to each line."""

import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, NamedTuple

import pydantic_core
from starlette.types import Scope

from manylabel_service.access.grant import Access
from manylabel_service.access.rates import RateLimiter
from manylabel_service.api.context import Context
from manylabel_service.api.schemas.base import ResponseModel
from manylabel_service.api.translation.line_reader import Line
from manylabel_service.api.translation.model_access import online
from manylabel_service.api.translation.to_json import numbers, to_dict
from manylabel_service.api.web.problems import Problem, invalid, problem_document, problem_of
from manylabel_service.audit.call import note
from manylabel_service.errors import InvalidExample, LimitExceeded, ModelGone, ServiceError
from manylabel_service.hosting.examples import Example
from manylabel_service.hosting.hosted_model import HostedModel
from manylabel_service.hosting.selection import Selection
from manylabel_service.online.replica import Replica
from manylabel_service.online.state.outcome import UpdateResult
from manylabel_service.online.state.stream_offsets import StreamPart
from manylabel_service.slices import in_slices

MAX_REFUSED = 1_000
"""Maximum number of consecutive invalid lines, after which the stream ends, because each gets a long response."""
MAX_ANSWER_BYTES = 2**16
"""Size in bytes at which buffered responses are sent."""
MAX_LISTED = 1_000
"""Maximum number of rejected lines listed with `answers=errors`, which socket buffers must store until the client
reads.
"""


class StreamFailed(Exception):
    """Error that ends the stream: this line and the lines after it were not learnt."""

    def __init__(self, number: int, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.number = number
        self.problem = problem


class _Learnt(NamedTuple):
    """Lines with the result of learning them as one update; None if no line was valid."""

    lines: list[Line]
    updated: UpdateResult | None


class StreamSummary(ResponseModel):
    """Last line of a response with `answers=errors`: the result of the stream."""

    learnt: int
    """Number of lines that this request learnt."""
    replayed: int
    """Number of lines learnt earlier under the key of the stream."""
    refused: int
    """Number of refused lines, including those that were not listed."""
    next: int
    """Number of the first line that was not read. The stream can continue there."""
    position: str | None
    """Position of the last learnt line; null for none."""
    updates: int | None
    """Number of examples that the model had learnt at that position."""


class LineLearner:
    """Learner of the lines of one stream; `summary` counts the lines so far.

    Parameters
    ----------
    key : key of the stream, so that repeated lines are not learnt again.
    probabilities : whether responses have probabilities.
    errors_only : whether only rejected lines get a response.
    stop : whether the first rejected line ends the stream.
    """

    def __init__(
        self,
        context: Context,
        replica: Replica,
        key: str | None,
        scope: Scope,
        probabilities: bool = False,
        errors_only: bool = False,
        stop: bool = False,
    ) -> None:
        self._context = context
        self._record = replica.record
        self._learns = replica.model.learns
        self._key = key
        self._scope = scope
        self._probabilities = probabilities
        self._errors_only = errors_only
        self._stop = stop
        self._n_listed = 0
        self.summary = StreamSummary(learnt=0, replayed=0, refused=0, next=1, position=None, updates=None)
        self._n_refused = 0
        """Number of consecutive rejected lines up to the last response."""

    async def responses(self, lines: list[Line]) -> AsyncIterator[bytes]:
        """Learn a block, and yield responses to its lines in order. Raises StreamFailed."""
        if self._n_refused >= MAX_REFUSED:
            detail = f"{self._n_refused:,} consecutive lines were rejected: correct them, then continue from this line"
            raise StreamFailed(lines[0].number, Problem("too_many_refused", detail))
        access: Access = self._scope["access"]
        try:
            async with self._context.registry.use(self._record.name) as model:
                if not await self._continues(model):
                    gone = ModelGone(self._record.name, self._record.incarnation)
                    raise StreamFailed(lines[0].number, problem_of(gone))
                access.check()
                async for portion in self._learnt(online(model), lines, access.limits):
                    yield portion
        except ServiceError as error:
            raise StreamFailed(lines[0].number, problem_of(error)) from error

    async def _learnt(self, replica: Replica, lines: list[Line], limits: RateLimiter | None) -> AsyncIterator[bytes]:
        """Learn a block, and yield responses to its lines in order. Raises StreamFailed."""
        failed = _first_refused(lines) if self._stop else None
        if failed is not None:
            lines = [line for line in lines if line.number < failed.number]
        for part in self._parts(replica, lines, limits):
            async for learnt in self._learn(replica, part, limits):
                async for portion in _portions(self._responses_to(learnt)):
                    yield portion
        if failed is not None:
            raise failed

    async def _continues(self, model: HostedModel) -> bool:
        """Return whether a model is the model of the stream, or its successor."""
        numbers = self._record.incarnation, model.record.incarnation
        if model.record != self._record:
            if not await self._context.registry.successions.is_same(self._record.name, *numbers):
                return False
            self._record = model.record
        return True

    def refusal(self, number: int, problem: Problem, last: bool = False) -> dict[str, Any]:
        """Return the response to a rejected line; the response to the last line also has the line to resume from."""
        answer = {"line": number, "error": problem_document(problem, self._scope)}
        seconds = (problem.headers or {}).get("Retry-After")
        if last and seconds is not None:
            answer["retry_after"] = int(seconds)
        return answer

    def _responses_to(self, learnt: _Learnt) -> Iterator[dict[str, Any]]:
        lines, updated = learnt
        self._add(learnt)
        selection = Selection(self._context.settings.max_scores)
        good = iter(()) if updated is None or self._errors_only else _good(lines, updated, selection, self._learns)
        for line in lines:
            if isinstance(line.content, Problem):
                self._n_refused += 1
                self._n_listed += 1
                if not self._errors_only or self._n_listed <= MAX_LISTED:
                    yield self.refusal(line.number, line.content)
            else:
                self._n_refused = 0
                if not self._errors_only:
                    yield next(good)

    def _add(self, learnt: _Learnt) -> None:
        lines, updated = learnt
        refused = sum(isinstance(line.content, Problem) for line in lines)
        self.summary.refused += refused
        if updated is not None:
            self.summary.replayed += updated.skipped
            good = [line.content for line in lines if isinstance(line.content, Example)]
            self.summary.learnt += sum(map(self._learns, good[updated.skipped :]))
            self.summary.position, self.summary.updates = updated.position, updated.updates

    def _parts(self, replica: Replica, lines: list[Line], limits: RateLimiter | None) -> Iterator[list[Line]]:
        """Yield the lines in parts with a bounded number of scores in the response and within the rate limit of the
        key."""
        most = len(lines) if limits is None else limits.most_at_once or len(lines)
        good = (line.content for line in lines if isinstance(line.content, Example))
        sizes = itertools.repeat(0) if self._errors_only else iter(replica.answer_sizes(good))
        part: list[Line] = []
        scores = 0
        for line in lines:
            part.append(line)
            scores += next(sizes) if isinstance(line.content, Example) else 0
            is_large = numbers(scores, self._probabilities) >= self._context.settings.limits.max_response_scores
            if is_large or len(part) >= most:
                yield part
                part, scores = [], 0
        if part:
            yield part

    async def _learn(self, replica: Replica, lines: list[Line], limits: RateLimiter | None) -> AsyncIterator[_Learnt]:
        """Learn the valid lines as one update; attach errors to the rejected lines."""
        good = [line for line in lines if isinstance(line.content, Example)]
        started = time.perf_counter()
        try:
            if good and limits is not None:
                await limits.hold(len(good))
                started = time.perf_counter()
            updated = await self._update(replica, good) if good else None
        except ServiceError as error:
            if len(good) > 1 and isinstance(error, InvalidExample | LimitExceeded):
                middle = good[len(good) // 2].number  # nothing was learnt, but fewer lines may fit
                for first in (True, False):
                    part = [line for line in lines if (line.number < middle) is first]
                    async for learnt in self._learn(replica, part, None):
                        yield learnt
                return
            problem = _refusal(error)
            self._context.telemetry.rejected(self._record.name, problem.code)
            yield _Learnt([line for line in lines if line.number < good[0].number], None)
            raise StreamFailed(good[0].number, problem) from error
        if updated is not None and updated.refused:
            refused = {good[index].number: _refusal(error) for index, error in updated.refused.items()}
            lines = [line._replace(content=refused.get(line.number, line.content)) for line in lines]
        self._count(lines, updated, time.perf_counter() - started)
        yield _Learnt(lines, updated)

    async def _update(self, replica: Replica, good: list[Line]) -> UpdateResult:
        part = None if self._key is None else StreamPart(self._key, tuple(line.number for line in good))
        examples: list[Any] = [line.content for line in good]
        try:
            return await replica.update(
                examples,
                want_predictions=not self._errors_only,
                want_probabilities=self._probabilities,
                stream=part,
                refuse_each=not self._stop,
            )
        except ModelGone:
            await self._context.registry.check_gone(replica)
            raise

    def _count(self, lines: list[Line], updated: UpdateResult | None, seconds: float) -> None:
        telemetry = self._context.telemetry
        for line in lines:
            if isinstance(line.content, Problem):
                telemetry.rejected(self._record.name, line.content.code)
        if updated is not None:
            n_good = sum(isinstance(line.content, Example) for line in lines)
            telemetry.updated(self._record.name, n_good - updated.skipped, seconds, updated.alarms)
            note(self._scope, position=updated.position, lines=n_good - updated.skipped)


def _first_refused(lines: list[Line]) -> StreamFailed | None:
    refused = ((line.number, line.content) for line in lines if isinstance(line.content, Problem))
    return next((StreamFailed(number, problem) for number, problem in refused), None)


def _good(
    lines: list[Line], updated: UpdateResult, selection: Selection, learns: Callable[[Example], bool]
) -> Iterator[dict[str, Any]]:
    """Yield the responses to the valid lines; the first lines may have been learnt earlier under the stream's key."""
    good = [(line.number, line.content) for line in lines if isinstance(line.content, Example)]
    for number, _ in good[: updated.skipped]:
        yield {"line": number, "replayed": True, "position": updated.position}
    new = [(number, learns(example)) for number, example in good[updated.skipped :]]
    updates = updated.updates - sum(learnt for _, learnt in new)
    for (number, learnt), prediction in zip(new, updated.predictions or (), strict=True):
        updates += learnt
        yield {"line": number, **to_dict(prediction, selection), "position": updated.position, "updates": updates}


def _refusal(error: ServiceError) -> Problem:
    return invalid(error.path, error.detail) if isinstance(error, InvalidExample) else problem_of(error)


async def _portions(documents: Iterable[dict[str, Any]]) -> AsyncIterator[bytes]:
    """Yield the responses to the lines, one per line."""
    portion = bytearray()
    async for document in in_slices(documents):
        portion += pydantic_core.to_json(document, inf_nan_mode="null")
        portion += b"\n"
        if len(portion) > MAX_ANSWER_BYTES:
            yield bytes(portion)
            portion.clear()
    if portion:
        yield bytes(portion)
