"""Names of the package `manylabel_clients`."""

from manylabel_clients.http import responses
from manylabel_clients.http.client import AsyncClient, Client
from manylabel_clients.http.errors import (
    ApiError,
    Busy,
    Compiling,
    Conflict,
    ConnectionFailed,
    Denied,
    Expired,
    FieldError,
    Invalid,
    ManyLabelError,
    NotFound,
    TooLarge,
    Unauthorized,
    Unavailable,
    UnexpectedResponse,
)
from manylabel_clients.http.resources.examples import Sparse, rows_of
from manylabel_clients.http.resources.jobs import AsyncJob, Job, JobEvent, JobFailed, JobStatus
from manylabel_clients.http.resources.keys import AsyncKeys, Keys
from manylabel_clients.http.resources.models import AsyncModel, Event, Model
from manylabel_clients.http.resources.stream import LineResult, StreamSummary
from manylabel_clients.http.resources.webhooks import AsyncWebhooks, Webhooks
from manylabel_clients.http.responses import *  # noqa: F403
from manylabel_clients.http.transport.credentials import Secret
from manylabel_clients.http.transport.retry import Retry
from manylabel_clients.integrations.teacher import (
    Answer,
    AsyncTaught,
    SelfAgreement,
    Taught,
    TeacherBusy,
    TeacherFailed,
    TeacherRefuses,
    self_agreement,
    with_teacher,
)

# fmt: off
__all__ = [
    "Answer", "ApiError", "AsyncClient", "AsyncJob", "AsyncKeys", "AsyncModel", "AsyncTaught", "AsyncWebhooks",
    "Busy", "Client", "Compiling", "Conflict", "ConnectionFailed", "Denied", "Event", "Expired", "FieldError",
    "Invalid", "Job", "JobEvent", "JobFailed", "JobStatus", "Keys", "LineResult", "ManyLabelError", "Model",
    "NotFound", "Retry", "Secret", "SelfAgreement", "Sparse", "StreamSummary", "Taught", "TeacherBusy",
    "TeacherFailed", "TeacherRefuses", "TooLarge", "Unauthorized", "Unavailable", "UnexpectedResponse", "Webhooks",
    "rows_of", "self_agreement", "with_teacher"
]
# fmt: on
__all__ += responses.__all__
