"""Errors that a client raises.

ManyLabelError
├── ConnectionFailed         no response came: refused, reset, timed out
├── UnexpectedResponse       a response came that no ManyLabel server gives: is the address right?
├── JobFailed                a job that was waited for ended without a result (with the jobs)
└── ApiError                 the server said no, and why
    ├── Invalid              400, 415, 422   the request is wrong; nothing of it was learnt
    ├── Denied               403             the key is not for that
    │   └── Unauthorized     401             no key came, or one that opens nothing
    ├── NotFound             404             nothing of that name or id
    ├── Conflict             409             it is not in a state for that: taken, in use, in progress, ended, labelled
    ├── Expired              410             the prediction, or this part of the history, was kept no longer
    ├── TooLarge             413, 507        a body, a batch or the model would exceed its limit
    ├── Busy                 429             a queue is full, or the rate of the key used up; so were the retries
    └── Unavailable          503             not ready, draining or storage gone; the retries were used up

What Python itself finds wrong with an argument, before anything is sent, is a TypeError or ValueError.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class ManyLabelError(Exception):
    """Base of the errors of a client.

    Attributes
    ----------
    maybe_done : bool
        True when an attempt of the call may have been carried out although its response never arrived. Learning
        under your own key can be repeated safely: it counts once.
    done : int
        Examples of a `..._many` call that were answered in earlier requests, before this one failed; of a stream, the
        number of the last one answered.
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
    """JSON pointer into what was sent, as ``/examples/0/x/indices/3``; of a `..._many` call the number
    counts the examples given to the call."""
    header: str | None = None
    """Name of the header, if it is one."""
    parameter: str | None = None
    """Name of the parameter in the query string, if it is one."""


class ApiError(ManyLabelError):
    """The server rejected the request, with an RFC 9457 problem.

    Attributes
    ----------
    status : int
        The HTTP status.
    code : str
        The kind of problem in one word, as ``model_not_found``; empty when something in between answered.
    detail : str
        The problem, the field, and what to do.
    errors : tuple of FieldError
        The fields that are wrong, if it is about fields.
    request_id : str or None
        Names the request in the server's log.
    retry_after_seconds : float or None
        Value of the header Retry-After.
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
    ) -> None:
        super().__init__(status, code, detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = tuple(errors)
        self.request_id = request_id
        self.retry_after_seconds = retry_after_seconds

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
    """The state of an object does not allow the request: a name is taken, a dataset is in use, a job has ended, a
    prediction has its labels, a request with the same key is still running, or the model is of the other kind."""


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
