"""/v1/models/{name}/snapshots and /rollback: list, take and download snapshots, and return to an earlier state."""

from contextlib import ExitStack
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.api import schemas
from manylabel_service.api.context import ContextOf
from manylabel_service.api.translation.from_json import read_moment, read_position
from manylabel_service.api.translation.model_access import HISTORY, online
from manylabel_service.api.translation.to_json import receipt_of_change
from manylabel_service.api.translation.uploads import full_disk, scratch_file
from manylabel_service.api.web.bodies import idempotency_key
from manylabel_service.api.web.large_json import read_model
from manylabel_service.api.web.problems import invalid
from manylabel_service.api.web.routes import Router, content
from manylabel_service.api.web.streaming import Download
from manylabel_service.clock import rfc3339
from manylabel_service.errors import NoRollback
from manylabel_service.storage import SnapshotMeta

router = Router("snapshots", errors=["model_not_found", "model_is_trained"])


@router.endpoint("GET /v1/models/{name}/snapshots", "List snapshots", "read", schemas.SnapshotList)
async def list_snapshots(context: ContextOf, name: str) -> schemas.SnapshotList:
    """Lists the snapshots of the model, newest first. Newer snapshots replace older ones."""
    async with context.registry.use(name) as model:
        records = await online(model).files.snapshots.list()
    return schemas.SnapshotList(snapshots=list(map(_described, records)))


@router.endpoint(
    "POST /v1/models/{name}/snapshots",
    "Take a snapshot",
    "admin",
    schemas.Snapshot,
    ["limit_exceeded", "storage_full"],
    status=201,
)
async def take_snapshot(response: Response, context: ContextOf, name: str) -> schemas.Snapshot:
    """Takes a snapshot of the current state; newer snapshots replace it later. The header Location has its address."""
    async with context.registry.use(name) as model:
        record = await online(model).take_snapshot()
        response.headers["Location"] = f"/v1/models/{name}/snapshots/{record.position}"
        return _described(record)


@router.endpoint(
    "GET /v1/models/{name}/snapshots/{position}",
    "Download a snapshot",
    "export",
    None,
    ["snapshot_not_found", "storage_full"],
    responses={200: {"description": "A safetensors file", **content(media_type="application/octet-stream")}},
    response_class=Response,
)
async def download_snapshot(context: ContextOf, name: str, position: str) -> Response:
    """Downloads a snapshot. The file contains the whole model: `PUT /v1/models/{name}` creates
    a model from it, here or on another server."""
    async with context.registry.use(name) as model:
        replica = online(model)
        with ExitStack() as stack:
            stack.enter_context(context.downloads.take())
            file = await scratch_file(context.datasets, stack)
            with full_disk():
                await replica.files.snapshots.copy(position, file)
            return Download(file, context.settings.limits.idle_timeout_seconds, stack.pop_all())


@router.endpoint(
    "POST /v1/models/{name}/rollback",
    "Return to an earlier state",
    "admin",
    schemas.RolledBack,
    ["model_follows", "snapshot_not_found", "queue_full", "limit_exceeded", *HISTORY],
    takes=schemas.RollbackRequest,
    example={"position": "1"},
    keyed=True,
)
async def rollback(request: Request, response: Response, context: ContextOf, name: str) -> dict[str, Any]:
    """Returns the model to a snapshot, or to any position or time of its history. It forgets everything learnt since,
    including metrics, on every server at one position in its log. Later updates continue from that state."""
    async with context.registry.use(name) as model:
        replica = online(model, NoRollback)
        wanted, raw = await read_model(request, schemas.RollbackRequest)
        key, to = idempotency_key(request, "rollback", raw), _target_of(wanted)
        async with context.examining:
            updated = await replica.rollback(to, key=key)
        return {**receipt_of_change(updated, request, response), "rolled_back_to": updated.rolled_back_to}


def _target_of(wanted: schemas.RollbackRequest) -> str | int:
    """Return the position or the time."""
    given = [field for field in ("position", "time") if getattr(wanted, field) is not None]
    if len(given) > 1:
        raise invalid((given[1],), f"must be omitted if {given[0]} is sent")
    if wanted.time is not None:
        try:
            if isinstance(at := read_moment(wanted.time), int):
                return at
        except ValueError:
            pass
        raise invalid(("time",), "must be a time with an offset, such as 2026-11-27T10:03:00Z")
    try:
        return read_position(wanted.position or "")
    except ValueError:
        detail = "must be a position of this model's log; or send a time instead"
        raise invalid(("position",), detail) from None


def _described(record: SnapshotMeta) -> schemas.Snapshot:
    return schemas.Snapshot(
        position=record.position,
        bytes=record.size_bytes,
        created=rfc3339(record.created_unix_ms),
        pinned=record.pinned,
    )
