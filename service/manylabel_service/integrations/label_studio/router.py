"""/v1/label-studio/{model}: a model as the machine-learning backend of a Label Studio project."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pydantic_core
import structlog
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.access.grant import Access
from manylabel_service.api.context import Context, ContextOf
from manylabel_service.api.translation.model_access import counting_refusals, online
from manylabel_service.api.translation.to_json import check_numbers
from manylabel_service.api.web.access import access_of
from manylabel_service.api.web.large_json import read_large_json
from manylabel_service.api.web.problems import Problem, batch_too_large, invalid
from manylabel_service.api.web.routes import RawJSONResponse, Router
from manylabel_service.api.web.validation import Path, validated
from manylabel_service.errors import InvalidExample, KeyInFlight, ModelNotFound
from manylabel_service.hosting.examples import Example, Features
from manylabel_service.hosting.predictions import Prediction
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.integrations.label_studio import schemas
from manylabel_service.integrations.label_studio.notes import ModelNotes
from manylabel_service.integrations.label_studio.translation import (
    AnnotationRefused,
    TaskReader,
    annotation_key,
    model_versions,
    shown,
    to_config,
)
from manylabel_service.online.replica import Replica
from manylabel_service.online.state.outcome import UpdateResult
from manylabel_service.slices import Pace

log = structlog.get_logger()

router = Router("label studio", errors=["model_not_found"])

TASKS_AT_ONCE = 100

_LEARNT = ("ANNOTATION_CREATED", "ANNOTATIONS_CREATED", "ANNOTATION_UPDATED")

Sent = TypeVar("Sent", bound=BaseModel)


@router.endpoint(
    "GET /v1/label-studio/{name}/health", "Check that a model can predict", "predict", schemas.BackendHealth
)
async def label_studio_health(context: ContextOf, name: str) -> schemas.BackendHealth:
    """Returns without loading the model, because Label Studio waits only a second."""
    context.registry.require_ready()
    if not await context.registry.listing.existing({name}):
        raise ModelNotFound(name)
    return schemas.BackendHealth(status="UP", model_class=name)


@router.endpoint(
    "POST /v1/label-studio/{name}/setup",
    "Connect a project",
    "predict",
    schemas.SetupResponse,
    ["model_is_trained"],
    takes=schemas.SetupRequest,
)
async def label_studio_setup(request: Request, context: ContextOf, name: str) -> schemas.SetupResponse:
    """Connects a project. Label Studio calls this when the backend is added, when its settings are opened, and before
    it requests predictions. If the caller has the scope `learn`, messages without a labelling configuration are read
    with this one."""
    async with context.registry.use(name) as model:
        replica = online(model)
        sent = await _body(request, context, schemas.SetupRequest)
        config = await to_config(sent.label_config, ("schema",))
        if replica.spec.labels is not None:
            declared = set(replica.spec.labels)
            if unknown := [label for label in config.labels if label not in declared]:
                raise invalid(("schema",), f"has the choice {unknown[0]!r}, which is not one of the declared labels")
        if access_of(request).allows("learn"):
            _notes(request).note_config(replica.record, sent.label_config)
        return schemas.SetupResponse(model_version=_versions(replica)[-1])


def _notes(request: Request) -> ModelNotes:
    notes: ModelNotes = request.app.state.label_studio
    return notes


@router.endpoint(
    "POST /v1/label-studio/{name}/predict",
    "Predict tasks",
    "predict",
    schemas.TaskPredictions,
    ["model_is_trained", "batch_too_large"],
    takes=schemas.PredictTasksRequest,
)
async def label_studio_predict(request: Request, context: ContextOf, name: str) -> Response:
    """Returns one prediction per task. A task that is not a record, or does not fit the model, has no choices and the
    score 0."""
    async with context.registry.use(name) as model:
        replica = online(model)
        sent = await _body(request, context, schemas.PredictTasksRequest)
        config = await to_config(sent.label_config, ("label_config",))
        check_numbers(len(sent.tasks), len(sent.tasks) * len(config.labels), context)
        access_of(request).charge(len(sent.tasks))
        reader = TaskReader(replica, config, context.settings.max_features)
        started, results, pace = time.perf_counter(), list[bytes](), Pace()
        known = config.among(replica.model.labels)
        for begin in range(0, len(sent.tasks), TASKS_AT_ONCE):
            xs = []
            for task in sent.tasks[begin : begin + TASKS_AT_ONCE]:
                xs.append(_features(replica, reader, task))
                await pace.rest()
            predictions = await _predict(replica, xs)
            version = _versions(replica)[-1]
            for prediction in predictions:
                results.append(pydantic_core.to_json(shown(known, prediction, version)))
                await pace.rest()
        _log_skipped(_notes(request), replica, reader)
        context.telemetry.predicted(name, len(results), time.perf_counter() - started)
        return RawJSONResponse(b'{"results":[' + b",".join(results) + b"]}")


@router.endpoint(
    "POST /v1/label-studio/{name}/webhook",
    "Learn annotations",
    "learn",
    schemas.WebhookResponse,
    ["model_is_trained", "batch_too_large", "queue_full", "limit_exceeded", "storage_full"],
    takes=schemas.WebhookRequest,
)
async def label_studio_webhook(request: Request, context: ContextOf, name: str) -> schemas.WebhookResponse:
    """Learns each annotation once, and again with its new labels after an edit. Other messages change nothing."""
    async with context.registry.use(name) as model:
        replica = online(model)
        with counting_refusals(context, name):
            sent = await _body(request, context, schemas.WebhookRequest)
            learner = _Learner(context, _notes(request), replica, access_of(request), sent.project or {})
            if sent.action in _LEARNT:
                pace = Pace()
                for annotation, task in _pairs(sent):
                    await learner.learn(annotation, task)
                    await pace.rest()
        return schemas.WebhookResponse(learnt=learner.learnt, known=learner.known, model_version=_versions(replica)[-1])


@router.endpoint(
    "GET /v1/label-studio/{name}/versions",
    "List versions for Label Studio",
    "predict",
    schemas.BackendVersions,
    ["model_is_trained"],
)
async def label_studio_versions(context: ContextOf, name: str) -> schemas.BackendVersions:
    """Lists the versions of the model: a new one begins at 0, 1, 2, 5, 10, 20, 50 ... learnt examples."""
    return schemas.BackendVersions(versions=_versions(online(await context.registry.get(name))))


async def _body(request: Request, context: Context, kind: type[Sent]) -> Sent:
    document, _ = await read_large_json(request)
    most = context.settings.limits.max_batch_examples
    for field in ("tasks", "annotation", "task"):
        items = document.get(field) if isinstance(document, dict) else None
        if isinstance(items, list) and len(items) > most:
            raise batch_too_large(f"{field} has {len(items):,} items; at most {most:,} are allowed")
    return validated(kind, document, (), _place)


_UNIONS = ("annotation", "task", "id")


def _place(location: Path) -> Path:
    """Return a field path in a message without the branches of unions."""
    parts, path = iter(location), list[str | int]()
    for part in parts:
        path.append(part)
        if part in _UNIONS:
            next(parts, None)
    return tuple(path)


def _versions(replica: Replica) -> list[str]:
    replica.check_serving()
    return model_versions(replica.name, replica.record.incarnation, replica.model.updates)


def _log_skipped(notes: ModelNotes, replica: Replica, reader: TaskReader) -> None:
    """Log each skipped field of tasks once."""
    if reader.skipped and (new := notes.note_skipped(replica.record, reader.skipped)):
        log.warning("task_fields_skipped", model=replica.name, fields=new, reason="lists of objects or lists")


def _features(replica: Replica, reader: TaskReader, task: schemas.Task) -> Features | None:
    """Return the features of a task; None if the model accepts none of them."""
    try:
        x = reader.features(task.data, ())
    except Problem:
        return None
    return x if replica.model.features.fits(x) else None


async def _predict(replica: Replica, xs: Sequence[Features | None]) -> Iterator[Prediction | None]:
    fitting = [x for x in xs if x is not None]
    predicted = iter((await replica.predict(fitting)).predictions)
    return (None if x is None else next(predicted) for x in xs)


def _pairs(sent: schemas.WebhookRequest) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield annotations with the data of their tasks."""
    annotations = sent.annotation if isinstance(sent.annotation, list) else [sent.annotation]
    tasks = sent.task if isinstance(sent.task, list) else [sent.task]
    if len(annotations) != len(tasks):
        raise invalid(("task",), "must have one task for each annotation")
    for annotation, task in zip(annotations, tasks, strict=True):
        if annotation is None or task is None:
            raise invalid((), 'must have an annotation and its task: enable "Send payload" in the webhook')
        yield annotation, task.data


@dataclass
class _Learner:
    """Learner of the annotations of one project, with counts."""

    context: Context
    notes: ModelNotes
    replica: Replica
    access: Access
    project: Mapping[str, Any]
    learnt: int = 0
    known: int = 0
    reader: TaskReader | None = None

    async def _reader(self) -> TaskReader:
        if self.reader is None:
            text = self.project.get("label_config") or self.notes.config(self.replica.record)
            config = await to_config(text, ("project", "label_config"))
            self.reader = TaskReader(self.replica, config, self.context.settings.max_features)
        return self.reader

    async def learn(self, annotation: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        """Learn an annotation, unless it is known. Raises a Problem or ServiceError."""
        at = ("annotation",)
        reader = await self._reader()
        example = reader.example(data, annotation, at)
        _log_skipped(self.notes, self.replica, reader)
        if example is None:
            return
        try:
            key = annotation_key(annotation)
        except AnnotationRefused as error:
            raise invalid(at, str(error)) from error
        self.access.charge(1)
        started = time.perf_counter()
        try:
            updated = await self._update(example, key)
        except InvalidExample as error:
            raise invalid((*at, "result"), f"cannot be learnt: {error.place} {error.detail}") from error
        except KeyInFlight:  # another message handles the same annotation
            self.known += 1
            return
        self.known += updated.replayed
        self.learnt += not updated.replayed
        seconds = time.perf_counter() - started
        self.context.telemetry.updated(self.replica.name, int(not updated.replayed), seconds, updated.alarms)

    async def _update(self, example: Example, key: IdempotencyKey) -> UpdateResult:
        deadline = time.monotonic() + self.context.settings.max_queue_wait_seconds
        return await self.replica.update([example], key=key, deadline=deadline)
