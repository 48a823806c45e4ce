"""Streams of examples without I/O: batches under one key, each resumed where it was interrupted."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import httpx2

from manylabel_clients.http.errors import ApiError
from manylabel_clients.http.resources.examples import Example, Line, encode_line, encode_pair
from manylabel_clients.http.resources.resource import new_key
from manylabel_clients.http.responses import Prediction
from manylabel_clients.http.transport.batches import Batches, Items
from manylabel_clients.http.transport.exchange import (
    Exchange,
    Pause,
    Request,
    is_transient,
    refusal,
    send,
    unexpected,
)
from manylabel_clients.http.transport.json_body import NDJSON, from_json
from manylabel_clients.http.transport.retry import Retry

_TIMED_OUT = 408

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LineResult:
    """Result of one example of a stream."""

    line: int
    """Number of the example in the stream, from 1."""
    prediction: Prediction | None
    """Prediction made just before the example was learnt; None if it was rejected or learnt in an earlier attempt."""
    updates: int | None
    """Total number of learnt examples after this one; None if it was rejected or learnt in an earlier attempt."""
    replayed: bool
    """Whether the example was learnt in an earlier attempt."""
    error: ApiError | None
    """Reason for the rejection; the other lines were learnt."""


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """Counts of the examples that were sent in one request."""

    next: int
    """Number of the next example, at which a stream under the same key continues."""
    learnt: int
    replayed: int
    """Number of examples learnt in an earlier attempt."""
    position: str
    """Log position of the model. Opaque."""
    updates: int
    """Total number of learnt examples."""


class BatchStream(ABC, Generic[T]):
    """Stream of examples that is sent lazily in batches under one key, and yields results.

    Raises ValueError if `first` is not positive, or `key` does not fit a header.
    """

    def __init__(self, path: str, batches: Batches[Any], key: str | None, first: int, retry: Retry) -> None:
        if first < 1:
            raise ValueError(f"first must be at least 1, not {first}")
        self._path = path
        self._headers = {**NDJSON, "Idempotency-Key": new_key(key)}
        self._first = first
        self._batches = batches
        self._retry = retry

    def next(self) -> Exchange[Sequence[T] | None]:
        """Send one more batch; return its results, or None when there are no more examples."""
        batch = yield from self._batches.draw()
        return None if batch is None else (yield from self._send(self._first + batch.start, batch.items))

    @abstractmethod
    def _send(self, first: int, lines: Sequence[bytes]) -> Exchange[Sequence[T]]:
        """Send lines until each has a response, or all retries passed without progress."""

    def _post(self, number: int, lines: Sequence[bytes], options: str) -> Exchange[httpx2.Response]:
        """Send lines, whose numbers begin with the passed number."""
        path = f"{self._path}/stream?from={number}{options}"
        body = b"\n".join(lines) if lines[-1] else b"".join(b"%b\n" % line for line in lines)
        return (yield from send(Request("POST", path, body, self._headers), self._retry))

    def _pause(self, interruption: ApiError, failures: int, done: int) -> Pause:
        """Return the pause before the next attempt; raises the error if there is no next attempt."""
        asked = interruption.retry_after_seconds
        wait_seconds = self._retry.wait_seconds(failures, asked) if _may_pass(interruption) else None
        if wait_seconds is None:
            interruption.done = done
            raise interruption
        return Pause(wait_seconds)


class ExampleStream(BatchStream[LineResult]):
    """Stream in which each example is predicted, then learnt."""

    def __init__(
        self,
        path: str,
        examples: Items[Example],
        key: str | None,
        first: int,
        batch_size: int,
        probabilities: bool,
        retry: Retry,
    ) -> None:
        super().__init__(path, Batches(examples, encode_pair, batch_size), key, first, retry)
        self._options = "&probabilities=true" if probabilities else ""

    def _send(self, first: int, lines: Sequence[bytes]) -> Exchange[list[LineResult]]:
        answers: list[LineResult] = []
        failures = 0
        while len(answers) < len(lines):
            number, rest = first + len(answers), lines[len(answers) :]
            response = yield from self._post(number, rest, self._options)
            got = _answers(response, number, len(rest))
            interruption = _interruption(got, len(rest))
            answers += got if interruption is None else got[:-1]
            if interruption is None:
                continue
            failures = failures + 1 if len(got) == 1 else 1
            yield self._pause(interruption, failures, first - 1 + len(answers))
        return answers


class LearningStream(BatchStream[StreamSummary]):
    """Stream that is learnt without predictions: the server returns counts per batch."""

    def __init__(
        self, path: str, lines: Items[Line], key: str | None, first: int, batch_size: int, retry: Retry
    ) -> None:
        super().__init__(path, Batches(lines, encode_line, batch_size), key, first, retry)

    def _send(self, first: int, lines: Sequence[bytes]) -> Exchange[list[StreamSummary]]:
        done = learnt = replayed = failures = 0
        while True:
            number = first + done
            response = yield from self._post(number, lines[done:], "&answers=errors&stop=true")
            interruption, counts = _counts(response)
            reached = counts["next"] - number
            if not 0 <= reached <= len(lines) - done or (interruption is None and reached < len(lines) - done):
                raise unexpected(response)
            done, learnt, replayed = done + reached, learnt + counts["learnt"], replayed + counts["replayed"]
            if interruption is None:
                return [StreamSummary(first + done, learnt, replayed, counts["position"], counts["updates"])]
            failures = 1 if reached else failures + 1
            yield self._pause(interruption, failures, first - 1 + done)


def predictions(answer: Mapping[str, Any]) -> list[Prediction]:
    """Return the predictions in the JSON of a batch, or of one example."""
    whole = {part: answer.get(part) for part in ("expires", "stale_seconds")}
    whole["position"] = answer["position"]
    return [from_json(Prediction, {**one, **whole}) for one in answer.get("predictions", [answer])]


def _answers(response: httpx2.Response, first: int, n_lines: int) -> list[LineResult]:
    try:
        answers = [_answer(json.loads(line)) for line in response.content.splitlines()]
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise unexpected(response) from error
    numbers = [answer.line for answer in answers]
    if not answers or len(answers) > n_lines or numbers != list(range(first, first + len(answers))):
        raise unexpected(response)
    return answers


def _counts(response: httpx2.Response) -> tuple[ApiError | None, Mapping[str, Any]]:
    """Return the error that stopped the server, if any, and the counts of the lines before it."""
    try:
        *refused, counts = map(json.loads, response.content.splitlines())
        errors = [_answer(line).error for line in refused]
        wanted = {name: counts[name] for name in ("next", "learnt", "replayed", "position", "updates")}
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise unexpected(response) from error
    return (errors[-1] if errors else None), wanted


def _answer(line: Mapping[str, Any]) -> LineResult:
    if "error" in line:
        error = refusal(line["error"]["status"], line["error"], line.get("retry_after"))
        return LineResult(line["line"], None, None, False, error)
    if line.get("replayed"):
        return LineResult(line["line"], None, None, True, None)
    return LineResult(line["line"], predictions(line)[0], line["updates"], False, None)


def _interruption(answers: Sequence[LineResult], n_lines: int) -> ApiError | None:
    """Return the error at which the server stopped; None if it processed all lines."""
    error = answers[-1].error
    if error is None:
        return None
    return error if len(answers) < n_lines or _may_pass(error) else None


def _may_pass(error: ApiError) -> bool:
    return is_transient(error) or error.status == _TIMED_OUT
