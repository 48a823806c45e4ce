"""/v1/models/{name}/versions and /promote: the versions of a trained model, and which one is served."""

import asyncio
from contextlib import ExitStack
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from manylabel_core.state import DamagedState
from manylabel_service.api import schemas
from manylabel_service.api.context import ContextOf
from manylabel_service.api.translation.model_access import trained
from manylabel_service.api.translation.scratch_files import full_disk, scratch_file
from manylabel_service.api.web.access import needs
from manylabel_service.api.web.large_json import read_json
from manylabel_service.api.web.problems import Problem
from manylabel_service.api.web.routes import GuardedRoute, body, content, json_answer, listed, problems
from manylabel_service.api.web.streaming import Download
from manylabel_service.api.web.validation import invalid_body
from manylabel_service.clock import rfc3339
from manylabel_service.errors import VersionDamaged
from manylabel_service.trained.artifact import ModelArtifact
from manylabel_service.trained.version import Version

router = APIRouter(route_class=GuardedRoute, tags=["versions"])

MAX_DIGITS = 15

STORED = ("model_not_found", "model_is_online", "not_ready", "storage_unavailable")


@router.get(
    "/v1/models/{name}/versions",
    summary="List versions",
    response_model=schemas.VersionList,
    responses=problems(*STORED),
)
@needs("read")
async def list_versions(context: ContextOf, name: str) -> Response:
    """Lists what jobs have made of the model, the newest first. Versions never change, and stay until they are
    deleted."""
    model = trained(await context.registry.get(name))
    versions, served, damaged = await context.registry.ask(model, lambda model: model.versions())
    return json_answer(listed("versions", [_to_dict(version, served) for version in versions], damaged))


@router.post(
    "/v1/models/{name}/promote",
    summary="Serve another version",
    response_model=schemas.Promoted,
    responses=problems(
        *STORED,
        "malformed_json",
        "version_not_found",
        "version_differs",
        "body_too_large",
        "unsupported_media_type",
        "invalid_request",
        "version_damaged",
    ),
    openapi_extra=body(schemas.PromoteRequest, example={"version": 1}),
)
@needs("train")
async def promote(request: Request, context: ContextOf, name: str) -> Response:
    """Predictions come from this version from now on: on this server when the answer is there, on others as soon as
    they have loaded it; until then they come from the one before. Promoting that one switches back. A version whose
    features, or whose scaling, are others than those of the one served is refused without `force`."""
    model = trained(await context.registry.get(name))
    document, _ = await read_json(request, context.settings.max_body_bytes)
    try:
        wanted = schemas.PromoteRequest.model_validate(document)
    except ValidationError as error:
        raise invalid_body(error, (), tuple, {(): schemas.PromoteRequest}) from error
    promoted = await context.registry.ask(model, lambda model: model.promote(wanted.version, force=wanted.force))
    return json_answer({"model": name, **promoted._asdict()})


@router.get(
    "/v1/models/{name}/versions/{version}",
    summary="Download a version",
    response_class=Response,
    responses={
        200: {"description": "A safetensors file", **content(media_type="application/octet-stream")},
        **problems(*STORED, "version_not_found", "version_damaged", "storage_full"),
    },
)
@needs("export")
async def download_version(
    context: ContextOf,
    name: str,
    version: str,
    names: Annotated[bool, Query(description="Whether the file also has the names of features and labels.")] = False,
) -> Response:
    """The file holds the fitted estimator, for `from_bytes` of its class in `manylabel_core.batch`; with `names` it is
    another safetensors file, which holds that one, the names of features and labels, and how texts are read."""
    model = trained(await context.registry.get(name))
    number = read_number(name, version)
    with ExitStack() as stack:
        stack.enter_context(context.downloads.take())
        file = await scratch_file(context.datasets, stack)
        async with context.examining:
            found, data = await context.registry.ask(model, lambda model: model.version(number))
            try:
                contents = await asyncio.to_thread(ModelArtifact.from_bytes, data)
            except DamagedState as error:
                raise VersionDamaged(name, found.number, str(error)) from error
            with full_disk():
                await asyncio.to_thread(file.write, data if names else contents.estimator)
        return Download(file, context.settings.idle_timeout_seconds, stack.pop_all())


@router.delete(
    "/v1/models/{name}/versions/{version}",
    summary="Delete a version",
    status_code=204,
    responses=problems(*STORED, "version_not_found", "version_served"),
)
@needs("admin")
async def delete_version(context: ContextOf, name: str, version: str) -> Response:
    """Any version but the one served can be deleted. Its number is not given again."""
    model = trained(await context.registry.get(name))
    number = read_number(name, version)
    await context.registry.ask(model, lambda model: model.retire(number))
    return Response(status_code=204)


def read_number(name: str, text: str) -> int:
    """Return the number of a version in an address; no such version if it is none."""
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS):
        raise Problem("version_not_found", f"model {name!r} has no version {text[:50]!r}: versions are numbered from 1")
    return int(text)


def _to_dict(version: Version, served: int | None) -> dict[str, Any]:
    meta = version.meta
    return {
        "version": version.number,
        "served": version.number == served,
        "created": rfc3339(meta.created_unix_ms),
        "job": meta.job,
        "data": None if meta.data is None else dict(meta.data),
        "trainer": meta.trainer,
        "params": dict(meta.params),
        "measures": None if meta.measures is None else dict(meta.measures),
        "converged": meta.converged,
        "gap": meta.gap,
        "scaling": meta.scaling,
        "not_promoted_because": meta.not_promoted_because,
        "worse": meta.worse,
        "baseline": None if meta.baseline is None else dict(meta.baseline),
        "rows": meta.rows,
        "sampled": None if meta.sampled is None else dict(meta.sampled),
        "bytes": version.size_bytes,
        "position": version.position,
    }
