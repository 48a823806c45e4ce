"""All models whose names begin with a prefix, such as those of one customer: delete, export."""

import asyncio
import io
import re
import tarfile
from contextlib import ExitStack
from typing import IO, Annotated, Literal

from pydantic import BeforeValidator, Field
from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.access.grant import ANY
from manylabel_service.api import schemas
from manylabel_service.api.context import Context, ContextOf
from manylabel_service.api.translation.model_access import HISTORY, trained
from manylabel_service.api.translation.uploads import full_disk, scratch_file
from manylabel_service.api.web.access import AccessOf
from manylabel_service.api.web.parameters import Parameters, from_query
from manylabel_service.api.web.routes import Router, content
from manylabel_service.api.web.streaming import Download
from manylabel_service.audit.call import note
from manylabel_service.errors import ModelHasFollowers, ModelNotFound, NoVersionServed
from manylabel_service.online.replica import Replica
from manylabel_service.storage import ModelMeta

router = Router("models")

_PREFIX = r"^[a-z0-9][a-z0-9._-]{0,62}$"


def _checked(value: object) -> object:
    if not isinstance(value, str) or not re.fullmatch(_PREFIX, value):
        raise ValueError("must be the beginning of names of models, at least one character")
    return value


Prefix = Annotated[str, BeforeValidator(_checked), Field(json_schema_extra={"pattern": _PREFIX})]


class WhatToDelete(Parameters):
    """Parameters of a deletion of models."""

    prefix: Prefix
    """Beginning of the names."""
    followers: Literal["delete"] | None = None
    """`delete`: followers of these models that have other names are deleted too."""


class WhatToExport(Parameters):
    """Parameters of an export of models."""

    prefix: Prefix
    """Beginning of the names."""


@router.endpoint(
    "DELETE /v1/models", "Delete all models of a prefix", "admin", schemas.DeletedModels, ["model_has_followers"]
)
async def delete_models(
    request: Request, context: ContextOf, access: AccessOf, query: Annotated[WhatToDelete, from_query(WhatToDelete)]
) -> schemas.DeletedModels:
    """Deletes the models that exist now and whose names begin with the prefix, each as `DELETE /v1/models/{name}` does,
    and responds with their names. If one has a follower with another name, nothing is deleted. If an error ends the
    call, some models may be deleted; repeat it."""
    records, registry = await _records(request, context, access, query.prefix), context.registry
    followers = await registry.followers_besides(records)
    if followers and query.followers is None:
        raise ModelHasFollowers(f"{query.prefix}{ANY}", [each.name for each in followers])
    access.require_names(*(each.name for each in followers))
    deleted: list[str] = []
    try:
        await registry.delete_all([*followers, *records], deleted)
    finally:
        note(request.scope, models=deleted)
    return schemas.DeletedModels(deleted=deleted)


@router.endpoint(
    "GET /v1/export",
    "Export all models of a prefix",
    "export",
    None,
    ["storage_full", *HISTORY],
    responses={200: {"description": "A tar file", **content(media_type="application/octet-stream")}},
    response_class=Response,
)
async def export_models(
    request: Request, context: ContextOf, access: AccessOf, query: Annotated[WhatToExport, from_query(WhatToExport)]
) -> Response:
    """Downloads a tar file with the models whose names begin with the prefix. The file `NAME.safetensors` of an online
    model has its state, as a downloaded snapshot; `NAME.version` of a trained model has its served version, as a
    downloaded version with names. Models that are deleted meanwhile, and trained models without a version, are
    omitted."""
    records = await _records(request, context, access, query.prefix)
    exported: list[str] = []
    with ExitStack() as stack:
        stack.enter_context(context.downloads.take())
        file = await scratch_file(context.datasets, stack)
        with full_disk(), tarfile.open(fileobj=file, mode="w") as archive:
            for record in records:
                if (found := await _contents(context, record)) is not None:
                    await asyncio.to_thread(_add, archive, *found)
                    exported.append(record.name)
        note(request.scope, models=exported)
        return Download(file, context.settings.limits.idle_timeout_seconds, stack.pop_all())


async def _records(request: Request, context: Context, access: AccessOf, prefix: str) -> list[ModelMeta]:
    """Return the models of a prefix, all of which the caller may see."""
    pattern = f"{prefix}{ANY}"
    note(request.scope, model=pattern)
    access.require_cover((), [pattern])
    context.registry.require_ready()
    return await context.registry.listing.records(prefix)


async def _contents(context: Context, record: ModelMeta) -> tuple[str, bytes | memoryview] | None:
    """Return the name and the contents of the file of a model, or None."""
    try:
        async with context.registry.use(record.name) as model, context.examining:
            if isinstance(model, Replica):
                states = [await model.state_at(model.position)]
                return f"{model.name}.safetensors", await asyncio.to_thread(states.pop().to_buffer)
            _, data = await trained(model).version(None)
            return f"{model.name}.version", data
    except (ModelNotFound, NoVersionServed):
        return None


def _add(archive: tarfile.TarFile, name: str, data: bytes | memoryview) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    contents: IO[bytes] = io.BytesIO(data)
    archive.addfile(member, contents)
