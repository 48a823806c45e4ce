"""A stream of examples, as conversations without I/O: pieces under one key, each gone on with where it broke off."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2

from manylabel_clients.http import _wire, types
from manylabel_clients.http._exchange import Pause, Request, Steps, exchange, is_transient, refusal, unexpected
from manylabel_clients.http.errors import ApiError
from manylabel_clients.http.retry import Retry
from manylabel_clients.http.types import LineAnswer

_TIMED_OUT = 408


def send_piece(
    path: str, first: int, lines: Sequence[bytes], key: str, retry: Retry, probabilities: bool = False
) -> Steps[list[LineAnswer]]:
    """Send lines until each has its answer, or the retries are used up without any progress.

    Parameters
    ----------
    path : of the model.
    first : number of the first line.
    lines : one example each, as JSON.
    key : of the stream.
    retry : when to try again.
    probabilities : whether the answers shall have them.
    """
    options = "&probabilities=true" if probabilities else ""
    answers: list[LineAnswer] = []
    failures = 0
    while len(answers) < len(lines):
        number, rest = first + len(answers), lines[len(answers) :]
        headers = {**_wire.NDJSON, "Idempotency-Key": key}
        request = Request("POST", f"{path}/stream?from={number}{options}", b"\n".join(rest), headers)
        got = _answers((yield from exchange(request, retry)), number, len(rest))
        broken = _broken(got, len(rest))
        answers += got if broken is None else got[:-1]
        if broken is None:
            continue
        failures = failures + 1 if len(got) == 1 else 1
        wait_seconds = retry.wait_seconds(failures, broken.retry_after_seconds) if _is_passing(broken) else None
        if wait_seconds is None:
            broken.done = first - 1 + len(answers)
            raise broken
        yield Pause(wait_seconds)
    return answers


def _answers(response: httpx2.Response, first: int, n_lines: int) -> list[LineAnswer]:
    try:
        answers = [_answer(json.loads(line)) for line in response.content.splitlines()]
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise unexpected(response) from error
    numbers = [answer.line for answer in answers]
    if not answers or len(answers) > n_lines or numbers != list(range(first, first + len(answers))):
        raise unexpected(response)
    return answers


def _answer(line: Mapping[str, Any]) -> LineAnswer:
    if "error" in line:
        error = refusal(line["error"]["status"], line["error"], line.get("retry_after"))
        return LineAnswer(line["line"], None, None, False, error)
    if line.get("replayed"):
        return LineAnswer(line["line"], None, None, True, None)
    return LineAnswer(line["line"], types.predictions(line)[0], line["updates"], False, None)


def _broken(answers: Sequence[LineAnswer], n_lines: int) -> ApiError | None:
    """Why the server answered no further line; None if it answered all."""
    error = answers[-1].error
    if error is None:
        return None
    return error if len(answers) < n_lines or _is_passing(error) else None


def _is_passing(error: ApiError) -> bool:
    return is_transient(error) or error.status == _TIMED_OUT
