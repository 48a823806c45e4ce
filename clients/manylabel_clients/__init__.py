"""Clients of a ManyLabel server, river adapters and the `manylabel` command: what users import or run.

Importing this loads the HTTP client only. `manylabel_clients.river` has the estimators and streams,
`manylabel_clients.plots` draws what a trained model has learnt.
"""

from manylabel_clients.http.client import AsyncClient, Client
from manylabel_clients.http.errors import (
    ApiError,
    Busy,
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
    UnexpectedAnswer,
)
from manylabel_clients.http.resources.audit import AuditedCall, AuditPage
from manylabel_clients.http.resources.datasets import DatasetInfo
from manylabel_clients.http.resources.examples import Sparse
from manylabel_clients.http.resources.jobs import (
    AsyncJob,
    Job,
    JobError,
    JobEvent,
    JobFailed,
    JobProgress,
    JobResult,
    JobStatus,
    LogLine,
    Trainer,
)
from manylabel_clients.http.resources.keys import ApiKey, AsyncKeys, Keys, NewApiKey, Rates
from manylabel_clients.http.resources.labels import LabelMeasures, LabelPage, LabelStatus
from manylabel_clients.http.resources.metrics import (
    Alarms,
    BaselineColumns,
    BaselineMeasures,
    Drift,
    LabelColumns,
    LabelHistory,
    MeasureColumns,
    Measures,
    Metrics,
    MetricsHistory,
    PastAlarms,
    Reliability,
    ReliabilityBin,
    WindowColumns,
    WindowMeasures,
)
from manylabel_clients.http.resources.model_status import ModelStatus, ModelSummary, TrainedStatus, TrainedSummary
from manylabel_clients.http.resources.models import AsyncModel, Event, Model
from manylabel_clients.http.resources.predictions import (
    Explanation,
    FeaturePart,
    Prediction,
    UnlabelledPage,
    UnlabelledPrediction,
    Updated,
)
from manylabel_clients.http.resources.replicas import KnownVersions, Replica, Replicas
from manylabel_clients.http.resources.snapshots import RolledBack, Snapshot
from manylabel_clients.http.resources.stream import LineAnswer
from manylabel_clients.http.resources.versions import ModelDetail, Promoted, Version
from manylabel_clients.http.transport.credentials import Secret, derive_token
from manylabel_clients.http.transport.retry import Retry

__all__ = [
    "Alarms",
    "ApiError",
    "ApiKey",
    "AsyncClient",
    "AsyncJob",
    "AsyncKeys",
    "AsyncModel",
    "AuditPage",
    "AuditedCall",
    "BaselineColumns",
    "BaselineMeasures",
    "Busy",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "DatasetInfo",
    "Denied",
    "Drift",
    "Event",
    "Expired",
    "Explanation",
    "FeaturePart",
    "FieldError",
    "Invalid",
    "Job",
    "JobError",
    "JobEvent",
    "JobFailed",
    "JobProgress",
    "JobResult",
    "JobStatus",
    "Keys",
    "KnownVersions",
    "LabelColumns",
    "LabelHistory",
    "LabelMeasures",
    "LabelPage",
    "LabelStatus",
    "LineAnswer",
    "LogLine",
    "ManyLabelError",
    "MeasureColumns",
    "Measures",
    "Metrics",
    "MetricsHistory",
    "Model",
    "ModelDetail",
    "ModelStatus",
    "ModelSummary",
    "NewApiKey",
    "NotFound",
    "PastAlarms",
    "Prediction",
    "Promoted",
    "Rates",
    "Reliability",
    "ReliabilityBin",
    "Replica",
    "Replicas",
    "Retry",
    "RolledBack",
    "Secret",
    "Snapshot",
    "Sparse",
    "TooLarge",
    "TrainedStatus",
    "TrainedSummary",
    "Trainer",
    "Unauthorized",
    "Unavailable",
    "UnexpectedAnswer",
    "UnlabelledPage",
    "UnlabelledPrediction",
    "Updated",
    "Version",
    "WindowColumns",
    "WindowMeasures",
    "derive_token",
]
