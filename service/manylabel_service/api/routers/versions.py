"""/v1/models/{name}/versions, /promote and /detail: the versions of a trained model, and which one is served."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import fields
from typing import Annotated, Any

import pydantic_core
from fastapi import Query
from pydantic import Field, StrictBool
from starlette.requests import Request
from starlette.responses import Response

from manylabel_core.state import DamagedState
from manylabel_service.access.grant import ADMIN
from manylabel_service.api.context import Context, ContextOf, context_of
from manylabel_service.api.schemas.base import At, RequestModel, ResponseModel, omitted_if_empty
from manylabel_service.api.translation.model_access import WhichVersion, trained
from manylabel_service.api.translation.uploads import full_disk, scratch_file
from manylabel_service.api.web.access import access_of
from manylabel_service.api.web.bodies import has_body, idempotency_key, note_replayed
from manylabel_service.api.web.large_json import read_model
from manylabel_service.api.web.parameters import from_query
from manylabel_service.api.web.problems import Problem, invalid
from manylabel_service.api.web.routes import RawJSONResponse, Router, content
from manylabel_service.api.web.streaming import Download
from manylabel_service.audit.call import note
from manylabel_service.clock import rfc3339
from manylabel_service.errors import ModelIsOnline, VersionDamaged
from manylabel_service.jobs.spec.schemas import DataOfSet, DataOfStream, StreamSample
from manylabel_service.online.replica import Replica
from manylabel_service.trained.artifact import ModelArtifact
from manylabel_service.trained.detail import Detail, read_detail
from manylabel_service.trained.detail import LabelCorrelation as FoundCorrelation
from manylabel_service.trained.version import Version as StoredVersion

router = Router("versions", errors=["model_not_found", "model_is_online"])

MAX_DIGITS = 15


class Version(At):
    """Immutable version of a trained model."""

    version: int
    """Number of the version, from 1; numbers are not reused."""
    served: bool
    """Whether this version predicts."""
    created: str
    """Creation time (RFC 3339)."""
    job: str
    """Id of the job that created the version."""
    data: DataOfSet | DataOfStream | None
    """Dataset or stream of the training data, as in the job; null if unknown."""
    trainer: str
    params: dict[str, Any]
    measures: dict[str, float] | None
    """Metrics on the held-out rows, if there were any."""
    converged: bool
    """Whether the fit converged before it used up its iterations."""
    gap: float | None
    """Upper bound of the relative distance from the optimum; null if unknown."""
    scaling: str
    """Scaling of the features in training and in predictions."""
    not_promoted_because: str | None
    """Reasons why the version was not served when it was created; null if it was, or if the job requested it."""
    worse: str | None
    """Amount by which the version scored lower than the one it replaced, on the same rows; null if it did not."""
    baseline: dict[str, float] | None
    """Metrics of predicting the most frequent training labels for each of these rows."""
    rows: int
    """Number of examples that the version was fitted to."""
    sampled: StreamSample | None
    """Sample of the stream that the version was trained on; null for other data."""
    bytes: int


class VersionList(ResponseModel):
    """Versions of a trained model, newest first."""

    versions: list[Version]
    damaged: list[int] = omitted_if_empty()
    """Numbers of versions that cannot be read; present only if there are any."""


class Promoted(At):
    """Result of a promotion."""

    model: str
    version: int
    previous: int | None
    """Version served before; null for none. Promoting it switches back."""


class PromotedFollower(At):
    """Result of the promotion of a follower."""

    model: str
    """Name of the leader, which has the algorithm and state of the follower from this position on."""
    follower: str
    """Name of the follower, which now has the former algorithm and state of the leader, and follows it."""
    algorithm: str
    """Current algorithm of the model."""
    updates: int
    """Number of examples that the model has learnt."""
    since: str
    """Position at which the history of the model now begins."""


class LabelCorrelation(ResponseModel):
    """Correlations of the weights of labels, and so of their scores."""

    labels: list[str]
    values: list[list[float]]
    """Values from -1 to 1, a row and a column per label."""


class Convergence(ResponseModel):
    """Course of the training, in lists of equal length."""

    iteration: list[int]
    objective: list[float | None]
    gap: list[float | None]
    """Upper bound of the relative distance from the optimum; null while unknown."""
    seconds: list[float]


class Calibration(ResponseModel):
    """Platt scaling: the probability of a label is logistic(slope * score + intercept)."""

    slope: float
    intercept: float
    """Intercept; the score is the raw one, before the threshold is subtracted."""


class LabelDecision(ResponseModel):
    """Decision of a label: it is predicted if its score is above the threshold."""

    threshold: float
    """Threshold subtracted from the raw score of the label."""
    calibration: Calibration | None
    """Calibration; null for a version without probabilities."""


class ModelDetail(ResponseModel):
    """Details of a version."""

    version: int
    trainer: str
    params: dict[str, Any]
    measures: dict[str, float] | None
    baseline: dict[str, float] | None
    """Metrics of predicting the most frequent training labels for each of these rows."""
    label_scores: dict[str, dict[str, float]] | None
    """`f1`, `precision`, `recall` and `support` (number of rows) of each label on the held-out rows."""
    label_decisions: dict[str, LabelDecision]
    """Threshold and calibration of each label."""
    label_correlation: LabelCorrelation | None
    """Correlations of labels, learnt by mlrl and ssmlrl."""
    view_weights: dict[str, float] | None
    """Weights of the views, learnt by lsa_mml."""
    convergence: Convergence


class PromoteRequest(RequestModel):
    """Request to serve a version of a trained model, or, without a version, to promote a follower."""

    version: Annotated[int, Field(strict=True, ge=1)] | None = None
    """Number of the version; required for a trained model, and not allowed for a follower."""
    force: StrictBool = False
    """Whether to serve the version even if its features or scaling differ from those of the served version."""


@router.endpoint("GET /v1/models/{name}/versions", "List versions", "read", VersionList)
async def list_versions(context: ContextOf, name: str) -> dict[str, Any]:
    """Lists the versions of the model, newest first. Versions never change, and exist until they are deleted."""
    async with context.registry.use(name) as model:
        versions, served, damaged = await trained(model).versions()
    return {"versions": [_described(version, served) for version in versions], "damaged": damaged}


@router.endpoint(
    "POST /v1/models/{name}/promote",
    "Serve another version, or promote a follower",
    "train",
    Promoted | PromotedFollower,
    ["version_not_found", "version_differs", "version_damaged", "not_promotable"],
    takes=PromoteRequest,
    example={"version": 1},
    required=False,
    keyed=True,
)
async def promote(request: Request, response: Response, context: ContextOf, name: str) -> dict[str, Any]:
    """Serves a version of a trained model. This server serves it when the response arrives. Another server predicts
    with the previous version until it has loaded the new one. Promoting the previous version switches back. A version
    with other features or scaling than the served one is rejected without `force`.

    A follower is promoted without a version, which needs the scope `admin`. Its leader continues with the algorithm and
    state of the follower, and the follower with the algorithm and state of the leader. Promoting the follower again
    switches back. Send an Idempotency-Key: a repeated request without one switches back."""
    async with context.registry.use(name) as hosted:
        wanted, raw = PromoteRequest(), b""
        if has_body(request):
            wanted, raw = await read_model(request, PromoteRequest)
        if isinstance(hosted, Replica):
            return await _promote_follower(request, response, hosted, wanted, raw)
        if (version := wanted.version) is None:
            raise invalid(("version",), "must be the number of a version")
        promoted = await trained(hosted).promote(version, force=wanted.force)
        return {"model": name, **promoted._asdict()}


async def _promote_follower(
    request: Request, response: Response, follower: Replica, wanted: PromoteRequest, raw: bytes
) -> dict[str, Any]:
    context, access = context_of(request), access_of(request)
    if follower.follow is None:
        raise ModelIsOnline(follower.name)
    access.require((ADMIN,), follower.name)
    access.require_names(follower.follow.model)
    if wanted != PromoteRequest():
        raise invalid(("version",), "must be omitted: a follower has no versions")
    key = idempotency_key(request, "promote", raw)
    done, replayed = await context.promoter.promote(follower.name, key, access.key_id)
    note(request.scope, position=done.position)
    note_replayed(response, replayed)
    document = done.model_dump(include={"follower", "algorithm", "updates", "since", "position"})
    return {"model": follower.follow.model, **document}


@router.endpoint(
    "GET /v1/models/{name}/versions/{version}",
    "Download a version",
    "export",
    None,
    ["version_not_found", "version_damaged", "storage_full"],
    responses={200: {"description": "A safetensors file", **content(media_type="application/octet-stream")}},
    response_class=Response,
)
async def download_version(
    context: ContextOf,
    name: str,
    version: str,
    names: Annotated[bool, Query(description="Whether the file also has the names of features and labels.")] = False,
) -> Response:
    """Downloads the fitted estimator, for `from_bytes` of its class in `manylabel_core.batch`. With `names`, the
    safetensors file contains this file, the names of features and labels, and the text options."""
    async with context.registry.use(name) as model:
        hosted = trained(model)
        number = read_number(name, version)
        with ExitStack() as stack:
            stack.enter_context(context.downloads.take())
            file = await scratch_file(context.datasets, stack)
            async with context.examining:
                found, data = await hosted.version(number)
                try:
                    contents = await asyncio.to_thread(ModelArtifact.from_bytes, data)
                except DamagedState as error:
                    raise VersionDamaged(name, found.number, str(error)) from error
                with full_disk():
                    await asyncio.to_thread(file.write, data if names else contents.estimator)
            return Download(file, context.settings.limits.idle_timeout_seconds, stack.pop_all())


@router.endpoint(
    "DELETE /v1/models/{name}/versions/{version}",
    "Delete a version",
    "admin",
    None,
    ["version_not_found", "version_served"],
    status=204,
)
async def delete_version(context: ContextOf, name: str, version: str) -> None:
    """Deletes a version that is not served. Its number is not reused."""
    async with context.registry.use(name) as model:
        await trained(model).retire(read_number(name, version))


def read_number(name: str, text: str) -> int:
    """Return the number of a version in a path; raise VersionNotFound for other text."""
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS):
        raise Problem("version_not_found", f"model {name!r} has no version {text[:50]!r}: versions are numbered from 1")
    return int(text)


def _described(version: StoredVersion, served: int | None) -> dict[str, Any]:
    """Return a version as `Version`, which has the fields of the metadata and a few more."""
    meta = version.meta
    shared = {field.name for field in fields(meta)} & Version.model_fields.keys()
    return {
        **{name: getattr(meta, name) for name in shared},
        "version": version.number,
        "served": version.number == served,
        "created": rfc3339(meta.created_unix_ms),
        "bytes": version.size_bytes,
        "position": version.position,
    }


@router.endpoint(
    "GET /v1/models/{name}/detail",
    "Show details of a version",
    "read",
    ModelDetail,
    ["version_not_found", "no_version_served", "version_damaged"],
)
async def show_detail(
    context: ContextOf, name: str, query: Annotated[WhichVersion, from_query(WhichVersion)]
) -> Response:
    """Shows scores and correlations of labels, weights of views, and the course of the training."""
    async with context.examining:
        detail = await _detail(context, name, query.version)
        content = await asyncio.to_thread(_to_json, detail)
    return RawJSONResponse(content)


async def _detail(context: Context, name: str, number: int | None) -> Detail:
    async with context.registry.use(name) as model:
        version, data = await trained(model).version(number)
    return await asyncio.to_thread(read_detail, name, version, data)


def _to_json(detail: Detail) -> bytes:
    """Return the response as JSON. Long lists are written in parts, because one call would block the event loop."""
    meta, trace = detail.version.meta, detail.convergence
    facts = {
        "version": detail.version.number,
        "trainer": meta.trainer,
        "params": dict(meta.params),
        "measures": None if meta.measures is None else dict(meta.measures),
        "baseline": None if meta.baseline is None else dict(meta.baseline),
        "view_weights": detail.view_weights,
        "convergence": {name: getattr(trace, name) for name in type(trace).__slots__},
    }
    scores = b"null" if detail.label_scores is None else _object(detail.label_scores)
    decisions = _object(detail.label_decisions)
    parts = (
        _json(facts)[:-1],
        b',"label_scores":',
        scores,
        b',"label_decisions":',
        decisions,
        b',"label_correlation":',
    )
    return b"".join((*parts, _correlation(detail.label_correlation), b"}"))


def _object(by_label: Mapping[str, Any]) -> bytes:
    return b"{" + b",".join(_json(label) + b":" + _json(facts) for label, facts in by_label.items()) + b"}"


def _correlation(found: FoundCorrelation | None) -> bytes:
    if found is None:
        return b"null"
    rows: Iterator[bytes] = (_json(row.tolist()) for row in found.values)
    return b'{"labels":' + _json(found.labels) + b',"values":[' + b",".join(rows) + b"]}"


def _json(value: Any) -> bytes:
    """Return a value of JSON, with null for each number that is not finite."""
    return pydantic_core.to_json(value, inf_nan_mode="null")
