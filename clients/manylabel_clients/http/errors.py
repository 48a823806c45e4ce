"""Errors of the clients.

ManyLabelError
├── ConnectionFailed         no response: refused, reset, timed out
├── UnexpectedResponse       the response is not from a ManyLabel server
├── JobFailed                the job ended without a result (in the module of jobs)
└── ApiError                 the server rejected the request
    ├── Invalid              400, 415, 422   invalid request; nothing was learnt
    ├── Denied               403             the key lacks the scope or the model
    │   └── Unauthorized     401             missing or invalid key
    ├── NotFound             404             unknown name or id
    ├── Conflict             409             name taken, object in use, request in progress, job ended, labels known
    ├── Expired              410             the prediction or this part of the history has expired
    ├── TooLarge             413, 507        a body, a batch or the model would exceed its limit
    ├── Busy                 429             queue full or rate limit reached, after all retries
    └── Unavailable          503             not ready, draining or storage unavailable, after all retries

Invalid arguments raise TypeError or ValueError before anything is sent.
"""

from collections.abc import Sequence
from dataclasses import dataclass


class ManyLabelError(Exception):
    """Base of the errors of a client.

    Attributes
    ----------
    maybe_done : bool
        True if the server may have carried out the call although no response arrived. You can safely repeat a learning
        call with your own key: it counts once.
    done : int
        Number of examples of a `..._many` call in earlier, successful requests; for a stream, the number of the last
        example with a response.
    """

    maybe_done: bool = False
    done: int = 0


class ConnectionFailed(ManyLabelError):
    """No response arrived, after all retries: connection refused, reset or timed out."""


class UnexpectedResponse(ManyLabelError):
    """The response does not come from a ManyLabel server."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """Invalid field of a request."""

    detail: str
    """Allowed values."""
    pointer: str | None = None
    """JSON pointer into the request, such as ``/examples/0/x/indices/3``; in a `..._many` call, the index is that of
    the call's examples.
    """
    header: str | None = None
    """Name of the header, if the field is a header."""
    parameter: str | None = None
    """Name of the query parameter, if the field is one."""


@dataclass(frozen=True, slots=True)
class Compiling:
    """Progress of a server that compiles functions, on the first start on a machine."""

    done: int
    """Number of functions that are compiled."""
    total: int
    """Number of functions to compile, including those that are compiled."""
    seconds_left: float | None = None
    """Estimated seconds until all are compiled; None before there is an estimate."""

    def __str__(self) -> str:
        about = "" if self.seconds_left is None else f", about {self.seconds_left:.0f} s"
        return f"compiling {self.done:,} of {self.total:,}{about}"


class ApiError(ManyLabelError):
    """The server rejected the request, with an RFC 9457 problem.

    Attributes
    ----------
    status : int
        The HTTP status.
    code : str
        Error code, such as ``model_not_found``; empty if a proxy responded.
    detail : str
        The problem, the field, and what to do.
    errors : tuple of FieldError
        Invalid fields, if any.
    request_id : str or None
        Id of the request in the server's log.
    retry_after_seconds : float or None
        Value of the header Retry-After.
    compiling : Compiling or None
        Progress of the server, if the request must wait until functions are compiled.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        request_id: str | None = None,
        retry_after_seconds: float | None = None,
        compiling: Compiling | None = None,
    ) -> None:
        super().__init__(status, code, detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = tuple(errors)
        self.request_id = request_id
        self.retry_after_seconds = retry_after_seconds
        self.compiling = compiling

    def __str__(self) -> str:
        return f"{self.detail} ({f'{self.status} {self.code}'.rstrip()})"


class Invalid(ApiError):
    """The request is invalid; nothing was learnt."""


class Denied(ApiError):
    """The key lacks the scope or the model, or a proxy rejected the request."""


class Unauthorized(Denied):
    """The key is missing, unknown, expired or revoked, or a proxy requires credentials."""


class NotFound(ApiError):
    """A model, dataset, job, id, position or version does not exist."""


class Conflict(ApiError):
    """The state of an object does not allow the request. For example, a name is taken, a dataset is in use, a job has
    ended, a prediction has its labels, or a request with the same key is still running."""


class Expired(ApiError):
    """The stored prediction has expired, or the history of the model begins later."""


class TooLarge(ApiError):
    """A body, a batch or the model would exceed its limit."""


class Busy(ApiError):
    """Too many updates or jobs are waiting, or the rate limits of the key are exceeded."""


class Unavailable(ApiError):
    """The server is not ready, draining, or has lost its storage."""


BY_STATUS: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Denied,
    404: NotFound,
    409: Conflict,
    410: Expired,
    413: TooLarge,
    415: Invalid,
    422: Invalid,
    429: Busy,
    503: Unavailable,
    507: TooLarge,
}
