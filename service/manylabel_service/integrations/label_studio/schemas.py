"""Requests of Label Studio to a machine-learning backend, with the fields that the server reads, and responses."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, InstanceOf

from manylabel_service.api.schemas.base import ResponseModel
from manylabel_service.documented import Documented
from manylabel_service.integrations.label_studio.config import MAX_CONFIG_BYTES

_Object = InstanceOf[dict[str, Any]]
"""Any JSON object. It is not copied, because a large one would block the event loop."""


class _Sent(Documented):
    """JSON object of Label Studio; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", populate_by_name=False)


class SetupRequest(_Sent):
    """Request to connect a project."""

    label_config: str = Field(alias="schema", max_length=MAX_CONFIG_BYTES)
    """Labelling configuration (XML)."""


class SetupResponse(ResponseModel):
    """Response that the model can be the backend of the project."""

    model_version: str
    """Version of the model, which changes as the model learns."""


class Task(_Sent):
    """A task to label."""

    id: int | Annotated[str, Field(max_length=256)] | None = None
    """Number of the task in Label Studio."""
    data: _Object
    """Record of the task; images and other media in it are not features."""


class PredictTasksRequest(_Sent):
    """Request to predict tasks."""

    tasks: list[Task]
    """Tasks, predicted in this order."""
    label_config: Annotated[str, Field(max_length=MAX_CONFIG_BYTES)]
    """Labelling configuration (XML)."""


class TaskPrediction(ResponseModel):
    """A prediction in the form that Label Studio stores with a task."""

    result: list[dict[str, Any]]
    """Predicted choices of each question that the model can answer."""
    score: float
    """Certainty, 0 to 1. If the model promises a precision, it is below 0.5 if the task needs review."""
    model_version: str
    """Version of the model that predicted."""
    settled: bool | None = None
    """Whether the task needs no review; present if the model promises a precision."""


class TaskPredictions(ResponseModel):
    """Predictions of tasks."""

    results: list[TaskPrediction]
    """One prediction per task, in the order of the request."""


class WebhookRequest(_Sent):
    """Message about an event in a project."""

    action: Annotated[str, Field(max_length=64)]
    """Kind of event; ANNOTATION_CREATED, ANNOTATIONS_CREATED and ANNOTATION_UPDATED are handled."""
    annotation: _Object | list[_Object] | None = None
    """The annotation, or several annotations."""
    task: Task | list[Task] | None = None
    """Task of each annotation."""
    project: _Object | None = None
    """Project with its `id` and its `label_config`."""


class WebhookResponse(ResponseModel):
    """Result of a message."""

    learnt: int
    """Number of annotations learnt by this call."""
    known: int
    """Number of annotations learnt before."""
    model_version: str
    """Current version of the model."""


class BackendHealth(ResponseModel):
    """Response that the model can predict."""

    status: str
    """UP."""
    model_class: str
    """Name of the model."""


class BackendVersions(ResponseModel):
    """Versions of a model, by the number of examples learnt."""

    versions: list[str]
    """Versions, oldest first; the last is the current one."""
