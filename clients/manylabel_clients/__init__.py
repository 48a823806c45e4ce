"""What users import or run: HTTP clients, river adapters, the `manylabel` command.

Importing this loads the HTTP client only. `manylabel_clients.river` has the estimators and streams.
"""

from manylabel_clients.http.async_client import AsyncClient
from manylabel_clients.http.async_model import AsyncModel
from manylabel_clients.http.client import Client
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
    Unavailable,
    UnexpectedAnswer,
)
from manylabel_clients.http.model import Model
from manylabel_clients.http.retry import Retry
from manylabel_clients.http.types import (
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
    Updated,
    WindowMeasures,
)

__all__ = [
    "ApiError",
    "AsyncClient",
    "AsyncModel",
    "Busy",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "Denied",
    "Event",
    "Expired",
    "FieldError",
    "Invalid",
    "LineAnswer",
    "ManyLabelError",
    "Measures",
    "Metrics",
    "Model",
    "ModelStatus",
    "ModelSummary",
    "NotFound",
    "Prediction",
    "Retry",
    "RolledBack",
    "Snapshot",
    "Sparse",
    "TooLarge",
    "Unavailable",
    "UnexpectedAnswer",
    "Updated",
    "WindowMeasures",
]
