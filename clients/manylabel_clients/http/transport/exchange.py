"""Calls to a server as generators without I/O: requests to send, pauses, and results.

An exchange yields a `Request` and receives the response or the error. It yields a `Pause` or a `Draw` and is resumed
after that step. It returns the result. The sync and the async connections only execute these steps, so retries, batches
and errors are implemented and tested once.
"""

import re
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import httpx2

from manylabel_clients.http.errors import (
    BY_STATUS,
    ApiError,
    Compiling,
    ConnectionFailed,
    FieldError,
    ManyLabelError,
    UnexpectedResponse,
)
from manylabel_clients.http.transport.json_body import from_json
from manylabel_clients.http.transport.retry import Retry

T = TypeVar("T")
Result = TypeVar("Result", covariant=True)

Pieces: TypeAlias = Callable[[], Iterator[bytes]]
"""Function that returns a large body in chunks, from its start at each call."""


@dataclass(frozen=True, slots=True)
class Request:
    """HTTP request whose body can be sent repeatedly, because a retry sends the same bytes."""

    method: str
    path: str
    body: bytes | Pieces | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float | None = None
    """Timeout in seconds; None means the timeout of the client."""
    left_seconds: float | None = field(default=None, compare=False)
    """Remaining seconds of a call, which limit the timeouts of a retry; not sent."""


class Pause(NamedTuple):
    """Step of an exchange: wait."""

    seconds: float


class Draw(NamedTuple):
    """Step of an exchange: pass items of an iterator to `add` until it returns True or they end."""

    items: Iterator[Any] | AsyncIterator[Any]
    add: Callable[[Any], bool]


Reply: TypeAlias = httpx2.Response | httpx2.RequestError | None
Exchange: TypeAlias = Generator[Request | Pause | Draw, Reply, T]

# Nothing was sent if one of these errors is raised. After any other error, the server may have carried out the request:
# a gateway may have timed out, or the server may have failed afterwards.
_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_AMBIGUOUS_STATUS = (500, 502, 504)
_TRANSIENT_STATUS = (429, 502, 503, 504)

COMPILING_SECONDS = 5.0
"""Maximum seconds of Retry-After to wait between two attempts while the server compiles functions."""
LAST_ATTEMPT_SECONDS = 1.0
"""Timeout in seconds of an attempt that begins when the patience has run out."""


class Batched(Protocol[Result]):
    """Results that come in batches."""

    def next(self) -> Exchange[Sequence[Result] | None]:
        """Exchange the next batch; return its results, or None at the end."""


def send(request: Request, retry: Retry, *, once: bool = False) -> Exchange[httpx2.Response]:
    """Send a request until it succeeds or the retries are used up.

    Nearly all requests can be sent twice: reading and deleting are idempotent, learning has a key, and `create_model`
    checks an existing model. With `once`, a request is not sent again if the server may have carried it out; then
    `maybe_done` of the raised error is True.
    """
    failures, maybe_done, started, compiled = 0, False, retry.clock(), -1
    while True:
        left_seconds = max(LAST_ATTEMPT_SECONDS, started + retry.patience_seconds - retry.clock())
        reply = yield replace(request, left_seconds=left_seconds) if failures else request
        if isinstance(reply, httpx2.Response) and reply.is_success:
            return reply
        failures += 1
        error = failure(reply, request)
        maybe_done |= _is_ambiguous(reply)
        error.maybe_done = maybe_done
        may_repeat = is_transient(error) and not (once and maybe_done)
        asked_seconds = _retry_after(error)
        if retry.wait_compiling and (compiling := compiling_in(error)) is not None:
            asked_seconds = min(asked_seconds or 0.0, COMPILING_SECONDS)
            failures = 1
            if compiling.done > compiled:
                started, compiled = retry.clock(), compiling.done
        spent_seconds = retry.clock() - started
        wait_seconds = retry.wait_seconds(failures, asked_seconds, spent_seconds) if may_repeat else None
        if wait_seconds is None:
            raise error from (reply if isinstance(reply, Exception) else None)
        retry.report(error, wait_seconds)
        yield Pause(wait_seconds)
    raise AssertionError("unreachable")


def read(response: httpx2.Response, kind: Callable[..., T]) -> T:
    """Convert the JSON object of a response with `from_json`; raise UnexpectedResponse if the conversion fails."""
    try:
        return from_json(kind, response.json())
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise unexpected(response) from error


def unexpected(response: httpx2.Response) -> UnexpectedResponse:
    """Return the error to raise for a successful response that is not understood."""
    kind = response.headers.get("content-type", "no content type")
    return UnexpectedResponse(
        f"{response.url} responded {response.status_code} with {kind}, which this client "
        "cannot read: check that this is the address of a ManyLabel server, and that its version fits the client"
    )


def count_from(error: ManyLabelError, done: int) -> None:
    """Convert the indices in the error of a later request to indices in the whole call."""
    error.done = done
    if isinstance(error, ApiError):
        error.detail = _renumbered(error.detail, done)
        error.errors = tuple(
            replace(one, pointer=_renumbered(one.pointer, done)) if one.pointer else one for one in error.errors
        )


def _renumbered(text: str, done: int) -> str:
    return re.sub(r"(?<!\S)/examples/(\d+)", lambda found: f"/examples/{int(found[1]) + done}", text)


def failure(reply: Reply, request: Request) -> ManyLabelError:
    """Return the error to raise for an unsuccessful or missing response; raise ValueError for an illegal request."""
    if isinstance(reply, httpx2.LocalProtocolError | httpx2.UnsupportedProtocol):
        raise ValueError(f"the request cannot be sent: {reply}") from reply
    if isinstance(reply, httpx2.Response):
        return _refusal(reply)
    what = f"{type(reply).__name__}: {reply}".rstrip(": ")
    url = reply.request.url if reply is not None else request.path
    return ConnectionFailed(f"no response to {request.method} {url} ({what})")


def _refusal(response: httpx2.Response) -> ApiError:
    problem = _problem(response) or {"title": response.reason_phrase}
    return refusal(response.status_code, problem, _seconds(response.headers.get("retry-after")))


def refusal(status: int, problem: Mapping[str, Any], retry_after_seconds: float | None = None) -> ApiError:
    """Return the error to raise for a problem document (RFC 9457)."""
    return BY_STATUS.get(status, ApiError)(
        status,
        str(problem.get("code", "")),
        str(problem.get("detail") or problem.get("title") or "no reason given"),
        errors=_field_errors(problem),
        request_id=problem.get("request_id"),
        retry_after_seconds=retry_after_seconds,
        compiling=_compiling(problem.get("compiling")),
    )


def _compiling(progress: Any) -> Compiling | None:
    """Return the progress in a problem document; None if there is no progress, or if its format is unknown."""
    try:
        return from_json(Compiling, progress)
    except (TypeError, LookupError):
        return None


def _problem(response: httpx2.Response) -> dict[str, Any]:
    """Return the problem document of a response; empty if a proxy or another program responded."""
    if not response.headers.get("content-type", "").startswith("application/problem+json"):
        return {}
    try:
        return read(response, dict)
    except UnexpectedResponse:
        return {}


def _field_errors(problem: Mapping[str, Any]) -> list[FieldError]:
    found = problem.get("errors")
    places = [place for place in found if isinstance(place, dict)] if isinstance(found, list) else []
    return [FieldError(str(p.get("detail", "")), p.get("pointer"), p.get("header"), p.get("parameter")) for p in places]


def _seconds(header: str | None) -> float | None:
    """Return Retry-After in seconds.

    The form with a date, which needs synchronised clocks, is ignored; the server never sends it.
    """
    return float(header) if header is not None and re.fullmatch(r"\d{1,9}", header) else None


def compiling_in(error: ManyLabelError) -> Compiling | None:
    """Return the progress of the compilation that a request must wait for, if any."""
    return error.compiling if isinstance(error, ApiError) else None


def _retry_after(error: ManyLabelError) -> float | None:
    return error.retry_after_seconds if isinstance(error, ApiError) else None


def is_transient(error: ManyLabelError) -> bool:
    """Return whether the same request may succeed later."""
    if isinstance(error, ApiError):
        return error.status in _TRANSIENT_STATUS or error.code == "idempotency_in_flight"
    return isinstance(error, ConnectionFailed)


def _is_ambiguous(reply: Reply) -> bool:
    if isinstance(reply, httpx2.Response):
        return reply.status_code in _AMBIGUOUS_STATUS
    return not isinstance(reply, _NEVER_SENT)
