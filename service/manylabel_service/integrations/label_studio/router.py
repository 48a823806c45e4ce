"""/v1/label-studio/{model}: a model as the machine-learning backend of a Label Studio project."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
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
from manylabel_service.api.web.problems import Problem, invalid
from manylabel_service.api.web.routes import RawJSONResponse, Router
from manylabel_service.api.web.validation import Path, validated
from manylabel_service.errors import InvalidExample, KeyInFlight, KeyReused, LimitExceeded, ModelNotFound
from manylabel_service.hosting.examples import Example, Features
from manylabel_service.hosting.predictions import Prediction
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.integrations.label_studio import schemas
from manylabel_service.integrations.label_studio.connection import Connections, FetchFailed, annotated_tasks
from manylabel_service.integrations.label_studio.translation import (
    AnnotationRefused,
    TaskReader,
    annotation_key,
    is_number,
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
RECONCILING_SECONDS = 80.0
"""Timeout in seconds for START_TRAINING; Label Studio waits 100 s for the response."""

MAX_LOGGED = 20
"""Maximum number of rejected annotations that one START_TRAINING logs."""

_NOT_CONNECTED = (
    "is not connected: since this server started, no setup with the scope learn came from one of label_studio_urls; "
    "open Settings, Model in Label Studio, then start the training again"
)

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
    it requests predictions. If the caller has the scope `learn` and `label_studio_urls` includes the address, the
    address and the access token are stored in memory for START_TRAINING; otherwise nothing is stored."""
    replica, sent = await _sent(request, context, name, schemas.SetupRequest)
    config = await to_config(sent.label_config, ("schema",))
    if replica.spec.labels is not None:
        declared = set(replica.spec.labels)
        if unknown := [label for label in config.labels if label not in declared]:
            raise invalid(("schema",), f"has the choice {unknown[0]!r}, which is not one of the declared labels")
    if access_of(request).allows("learn"):
        _connect(_connections(request), replica, sent)
    return schemas.SetupResponse(model_version=_versions(replica)[-1])


def _connections(request: Request) -> Connections:
    connections: Connections = request.app.state.label_studio
    return connections


def _connect(connections: Connections, replica: Replica, sent: schemas.SetupRequest) -> None:
    connections.note_config(replica.record, sent.label_config)
    project = sent.project.partition(".")[0]
    if sent.hostname and sent.access_token and project.isdecimal() and is_number(int(project)):
        connections.add(replica.record, int(project), sent.hostname, sent.access_token)


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
        _log_skipped(_connections(request), replica, reader)
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
    """Learns each annotation once, and again with its new labels after an edit. START_TRAINING reads the annotations of
    the project from Label Studio and learns the missing ones, because Label Studio does not repeat messages; it
    responds with 422 if the setting `label_studio_urls` is empty. Other messages change nothing."""
    async with context.registry.use(name) as model:
        replica = online(model)
        with counting_refusals(context, name):
            sent = await _body(request, context, schemas.WebhookRequest)
            learner = _Learner(context, _connections(request), replica, access_of(request), sent.project or {})
            if sent.action in _LEARNT:
                pace = Pace()
                for annotation, task in _pairs(sent):
                    await learner.learn(annotation, task)
                    await pace.rest()
            elif sent.action == "START_TRAINING":
                await learner.reconcile()
        return schemas.WebhookResponse(
            learnt=learner.learnt, known=learner.known, refused=learner.refused, model_version=_versions(replica)[-1]
        )


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


async def _sent(request: Request, context: Context, name: str, kind: type[Sent]) -> tuple[Replica, Sent]:
    """Return the model and the body of a request."""
    replica = online(await context.registry.get(name))
    return replica, await _body(request, context, kind)


async def _body(request: Request, context: Context, kind: type[Sent]) -> Sent:
    document, _ = await read_large_json(request)
    most = context.settings.limits.max_batch_examples
    for field in ("tasks", "annotation", "task"):
        items = document.get(field) if isinstance(document, dict) else None
        if isinstance(items, list) and len(items) > most:
            raise Problem("batch_too_large", f"{field} has {len(items):,} items, the limit is {most:,}")
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


def _log_skipped(connections: Connections, replica: Replica, reader: TaskReader) -> None:
    """Log each field of tasks that no record has once."""
    if reader.skipped and (new := connections.note_skipped(replica.record, reader.skipped)):
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
        raise invalid(("task",), "must have as many tasks as there are annotations")
    for annotation, task in zip(annotations, tasks, strict=True):
        if annotation is None or task is None:
            raise invalid((), "must have an annotation and its task: let the webhook send its payload")
        yield annotation, task.data


@dataclass
class _Learner:
    """Learner of the annotations of one project, with counts."""

    context: Context
    connections: Connections
    replica: Replica
    access: Access
    project: Mapping[str, Any]
    learnt: int = 0
    known: int = 0
    refused: int = 0
    reader: TaskReader | None = None

    async def _reader(self) -> TaskReader:
        if self.reader is None:
            text = self.project.get("label_config") or self.connections.config(self.replica.record)
            config = await to_config(text, ("project", "label_config"))
            self.reader = TaskReader(self.replica, config, self.context.settings.max_features)
        return self.reader

    async def learn(self, annotation: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        """Learn an annotation, unless it is known. Raises a Problem or ServiceError."""
        at = ("annotation",)
        reader = await self._reader()
        example = reader.example(data, annotation, at)
        _log_skipped(self.connections, self.replica, reader)
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

    async def reconcile(self) -> None:
        """Learn missing annotations of the project for up to RECONCILING_SECONDS; raises the errors of `learn`.

        The client gets the same message for every failure: it must not learn which ports of a host are open.
        """
        if not self.connections:
            raise invalid(
                (), "cannot be processed: START_TRAINING is disabled because the setting label_studio_urls is empty"
            )
        await self._reader()
        project = self.project.get("id")
        if not is_number(project):
            raise invalid(("project", "id"), "must be the number of the project")
        connection = self.connections.find(self.replica.record, project)
        if connection is None:
            raise invalid(("project", "id"), _NOT_CONNECTED)
        ends, pace = time.monotonic() + RECONCILING_SECONDS, Pace()
        try:
            async with aclosing(annotated_tasks(connection, ends)) as tasks:
                async for task in tasks:
                    if task is None:
                        self._refuse(None, "task_too_large")
                        continue
                    data = task.get("data")
                    for annotation in _annotations(task):
                        await self._learn_if_it_can(annotation, data if isinstance(data, dict) else {})
                        await pace.rest()
                        if time.monotonic() > ends:
                            return
        except FetchFailed as error:
            log.warning("label_studio_unreachable", model=self.replica.name, url=connection.url, error=str(error))
            raise invalid(
                (), "cannot be processed: Label Studio did not send its tasks; see the server's log"
            ) from error

    async def _learn_if_it_can(self, annotation: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        try:
            await self.learn({"project": self.project["id"], **annotation}, data)
        except (Problem, LimitExceeded, KeyReused) as error:
            self._refuse(annotation.get("id"), error.code)

    def _refuse(self, id: object, code: str) -> None:
        """Count a rejected annotation. The log has only its id, because errors quote labels."""
        self.refused += 1
        if self.refused <= MAX_LOGGED:
            log.warning("annotation_refused", model=self.replica.name, id=id if is_number(id) else None, code=code)


def _annotations(task: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    annotations = task.get("annotations")
    return (each for each in annotations if isinstance(each, dict)) if isinstance(annotations, list) else iter(())
