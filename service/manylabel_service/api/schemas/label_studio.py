"""Requests of Label Studio to a machine-learning backend, as far as they matter here, and their answers."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, InstanceOf

from manylabel_service.api.schemas.base import ResponseModel
from manylabel_service.label_studio.config import MAX_CONFIG_BYTES

_Object = InstanceOf[dict[str, Any]]
"""Any JSON object. It is not copied: a large one would hold the event loop for long."""


class _Sent(BaseModel):
    """A JSON object of Label Studio, which may have more fields than are read."""

    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True, populate_by_name=False)


class SetupRequest(_Sent):
    """A project is connected."""

    project: Annotated[str, Field(max_length=64)]
    """The number of the project, a dot, and when it was made."""
    label_config: str = Field(alias="schema", max_length=MAX_CONFIG_BYTES)
    """The labelling configuration, in XML."""
    hostname: Annotated[str, Field(max_length=2048)] | None = None
    """Address of Label Studio. Only its scheme, host and port are used, and only if `label_studio_urls` has them."""
    access_token: Annotated[str, Field(max_length=512, pattern="^[!-~]*$")] | None = None
    """Access token of the user who made the project, visible ASCII characters."""


class SetupResponse(ResponseModel):
    """The model can be the backend of the project."""

    model_version: str
    """The version moves as the model learns."""


class Task(_Sent):
    """A task is what is to be labelled."""

    id: int | Annotated[str, Field(max_length=256)] | None = None
    """The number of the task in Label Studio."""
    data: _Object
    """The record; images and other media in it are no features."""


class PredictTasksRequest(_Sent):
    """Tasks are to be predicted."""

    tasks: list[Task]
    """They are predicted in this order."""
    label_config: Annotated[str, Field(max_length=MAX_CONFIG_BYTES)]
    """The labelling configuration, in XML."""


class TaskPrediction(ResponseModel):
    """A prediction is as Label Studio stores it with a task."""

    result: list[dict[str, Any]]
    """For each question that can be answered, the choices."""
    score: float
    """The certainty, from 0 to 1. If the model promises a precision, it is below 0.5 if the task needs review."""
    model_version: str
    """This version has predicted it."""
    settled: bool | None = None
    """Whether the task needs no review; only there if the model promises a precision."""


class TaskPredictions(ResponseModel):
    """Tasks are predicted."""

    results: list[TaskPrediction]
    """There is one for each task, in their order."""


class WebhookRequest(_Sent):
    """Something has happened in a project."""

    action: Annotated[str, Field(max_length=64)]
    """ANNOTATION_CREATED, ANNOTATIONS_CREATED, ANNOTATION_UPDATED and START_TRAINING are heeded."""
    annotation: _Object | list[_Object] | None = None
    """The annotation, or several of them."""
    task: Task | list[Task] | None = None
    """The task of each annotation."""
    project: _Object | None = None
    """The project, with its `id` and its `label_config`."""


class WebhookResponse(ResponseModel):
    """The message was heeded, as far as there is something to learn."""

    learnt: int
    """Number of annotations learnt by this call."""
    known: int
    """Number of annotations that had been learnt before."""
    refused: int
    """Number of annotations that cannot be learnt."""
    model_version: str
    """The version of the model now."""


class BackendHealth(ResponseModel):
    """The model can be asked."""

    status: str
    """UP."""
    model_class: str
    """The name of the model."""


class BackendVersions(ResponseModel):
    """Versions say how much a model had learnt."""

    versions: list[str]
    """The first comes first, the present one last."""
