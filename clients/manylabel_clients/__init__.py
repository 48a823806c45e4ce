"""What users import or run: HTTP clients, river adapters, the `manylabel` command.

Importing this loads the HTTP client only. `manylabel_clients.river` has the estimators and streams.
"""

from manylabel_clients.http.async_client import AsyncClient, AsyncModel
from manylabel_clients.http.client import Client, Model
from manylabel_clients.http.errors import (
    ApiError,
    Busy,
    Conflict,
    ConnectionFailed,
    Denied,
    FieldError,
    Invalid,
    ManyLabelError,
    NotFound,
    TooLarge,
    Unavailable,
    UnexpectedAnswer,
)
from manylabel_clients.http.retry import Retry
from manylabel_clients.http.types import (
    Measures,
    Metrics,
    ModelStatus,
    Prediction,
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
    "FieldError",
    "Invalid",
    "ManyLabelError",
    "Measures",
    "Metrics",
    "Model",
    "ModelStatus",
    "NotFound",
    "Prediction",
    "Retry",
    "Sparse",
    "TooLarge",
    "Unavailable",
    "UnexpectedAnswer",
    "Updated",
    "WindowMeasures",
]
