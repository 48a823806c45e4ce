"""The JSON of requests and answers.

Requests are validated by these models; answers are written without them, for speed, and the tests hold the
answers against the models.
"""

from manylabel_service.api.schemas.base import (
    At,
)
from manylabel_service.api.schemas.learning import (
    DroppedEvent,
    LineLearnt,
    LineRefused,
    LineReplayed,
    Predicted,
    PredictedBatch,
    PredictedUpdated,
    PredictedUpdatedBatch,
    Prediction,
    RollbackEvent,
    RolledBack,
    Updated,
    UpdateEvent,
)
from manylabel_service.api.schemas.models import (
    Alive,
    BothMeasures,
    Measures,
    Metrics,
    ModelList,
    ModelStatus,
    Ready,
    Snapshot,
    SnapshotList,
    StoredModel,
    WindowMeasures,
)
from manylabel_service.api.schemas.problems import (
    ProblemDocument,
    WrongPlace,
)
from manylabel_service.api.schemas.requests import (
    Batch,
    LabelBatch,
    LabelItem,
    PredictBatch,
    PredictItem,
    RollbackRequest,
    SparseFeatures,
    UpdateBatch,
    UpdateItem,
)

__all__ = [
    "Alive",
    "At",
    "Batch",
    "BothMeasures",
    "DroppedEvent",
    "LabelBatch",
    "LabelItem",
    "LineLearnt",
    "LineRefused",
    "LineReplayed",
    "Measures",
    "Metrics",
    "ModelList",
    "ModelStatus",
    "PredictBatch",
    "PredictItem",
    "Predicted",
    "PredictedBatch",
    "PredictedUpdated",
    "PredictedUpdatedBatch",
    "Prediction",
    "ProblemDocument",
    "Ready",
    "RollbackEvent",
    "RollbackRequest",
    "RolledBack",
    "Snapshot",
    "SnapshotList",
    "SparseFeatures",
    "StoredModel",
    "UpdateBatch",
    "UpdateEvent",
    "UpdateItem",
    "Updated",
    "WindowMeasures",
    "WrongPlace",
]
