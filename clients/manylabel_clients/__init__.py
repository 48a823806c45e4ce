"""What users import or run: HTTP clients, river adapters, the `manylabel` command.

Importing this loads the HTTP client only. `manylabel_clients.river` has the estimators and streams.
"""

from manylabel_clients.http.async_client import AsyncClient
from manylabel_clients.http.async_job import AsyncJob
from manylabel_clients.http.async_model import AsyncModel
from manylabel_clients.http.client import Client
from manylabel_clients.http.dataset_types import DatasetInfo
from manylabel_clients.http.errors import (
    ApiError,
    Busy,
    Conflict,
    ConnectionFailed,
    Denied,
    Expired,
    FieldError,
    Invalid,
    JobFailed,
    ManyLabelError,
    NotFound,
    TooLarge,
    Unavailable,
    UnexpectedAnswer,
)
from manylabel_clients.http.job import Job
from manylabel_clients.http.job_types import JobError, JobEvent, JobProgress, JobResult, JobStatus, LogLine, Trainer
from manylabel_clients.http.model import Model
from manylabel_clients.http.retry import Retry
from manylabel_clients.http.types import (
    Alarms,
    Drift,
    Event,
    LineAnswer,
    Measures,
    Metrics,
    ModelStatus,
    ModelSummary,
    Prediction,
    RolledBack,
    Snapshot,
    Sparse,
    TrainedStatus,
    TrainedSummary,
    Updated,
    WindowMeasures,
)
from manylabel_clients.http.version_types import ModelDetail, Promoted, Version

__all__ = [
    "Alarms",
    "ApiError",
    "AsyncClient",
    "AsyncJob",
    "AsyncModel",
    "Busy",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "DatasetInfo",
    "Denied",
    "Drift",
    "Event",
    "Expired",
    "FieldError",
    "Invalid",
    "Job",
    "JobError",
    "JobEvent",
    "JobFailed",
    "JobProgress",
    "JobResult",
    "JobStatus",
    "LineAnswer",
    "LogLine",
    "ManyLabelError",
    "Measures",
    "Metrics",
    "Model",
    "ModelDetail",
    "ModelStatus",
    "ModelSummary",
    "NotFound",
    "Prediction",
    "Promoted",
    "Retry",
    "RolledBack",
    "Snapshot",
    "Sparse",
    "TooLarge",
    "TrainedStatus",
    "TrainedSummary",
    "Trainer",
    "Unavailable",
    "UnexpectedAnswer",
    "Updated",
    "Version",
    "WindowMeasures",
]
