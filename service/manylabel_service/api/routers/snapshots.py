"""/v1/models/{name}/snapshots and /rollback: list, take, download and delete snapshots, and return to one."""

from collections.abc import Awaitable
from contextlib import ExitStack
from typing import Any

from fastapi import APIRouter
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.api import schemas
from manylabel_service.api.context import Context, ContextOf
from manylabel_service.api.translation.from_json import read_moment, read_position
from manylabel_service.api.translation.model_access import HISTORY, online
from manylabel_service.api.translation.scratch_files import full_disk, scratch_file
from manylabel_service.api.translation.to_json import receipt
from manylabel_service.api.web import idempotency
from manylabel_service.api.web.access import needs
from manylabel_service.api.web.bodies import has_body
from manylabel_service.api.web.large_json import read_json
from manylabel_service.api.web.problems import invalid
from manylabel_service.api.web.routes import GuardedRoute, body, content, json_answer, problems
from manylabel_service.api.web.streaming import Download
from manylabel_service.api.web.validation import invalid_body
from manylabel_service.clock import rfc3339
from manylabel_service.errors import NoRollback
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.replica import Replica
from manylabel_service.online.state.outcome import UpdateResult
from manylabel_service.storage import ManualSnapshot, SnapshotMeta

router = APIRouter(route_class=GuardedRoute, tags=["snapshots"])

_STORED = ("model_not_found", "model_is_trained", "not_ready", "storage_unavailable")


@router.get(
    "/v1/models/{name}/snapshots",
    summary="List snapshots",
    response_model=schemas.SnapshotList,
    responses=problems(*_STORED),
)
@needs("read")
async def list_snapshots(context: ContextOf, name: str) -> Response:
    """Lists the snapshots of the model, newest first. Automatic snapshots are replaced by newer ones."""
    replica = online(await context.registry.get(name))
    records = await context.registry.ask(replica, lambda replica: replica.list_snapshots())
    return json_answer({"snapshots": [_to_dict(record) for record in records]})


@router.post(
    "/v1/models/{name}/snapshots",
    summary="Take a snapshot",
    status_code=201,
    response_model=schemas.Snapshot,
    responses=problems(
        *_STORED,
        "malformed_json",
        "snapshot_exists",
        "body_too_large",
        "unsupported_media_type",
        "invalid_request",
        "limit_exceeded",
    ),
    openapi_extra=body(schemas.SnapshotRequest, example={"name": "before-cleanup"}, required=False),
)
@needs("admin")
async def take_snapshot(request: Request, context: ContextOf, name: str) -> Response:
    """Takes a snapshot of the current state, which stays until it is deleted. The header Location has its address."""
    replica = online(await context.registry.get(name))
    document, _ = await read_json(request, context.settings.max_body_bytes) if has_body(request) else ({}, b"")
    try:
        wanted = schemas.SnapshotRequest.model_validate(document)
    except ValidationError as error:
        raise invalid_body(error, (), tuple, {(): schemas.SnapshotRequest}) from error
    kept = ManualSnapshot(wanted.name, wanted.note)
    record = await context.registry.ask(replica, lambda replica: replica.keep_snapshot(kept))
    location = f"/v1/models/{name}/snapshots/{record.position}"
    return json_answer(_to_dict(record), 201, [(b"location", location.encode())])


@router.get(
    "/v1/models/{name}/snapshots/{position}",
    summary="Download a snapshot",
    response_class=Response,
    responses={
        200: {"description": "A safetensors file", **content(media_type="application/octet-stream")},
        **problems(*_STORED, "snapshot_not_found", "storage_full"),
    },
)
@needs("export")
async def download_snapshot(context: ContextOf, name: str, position: str) -> Response:
    """Downloads a snapshot, by position or by name. The file contains the whole model: `PUT /v1/models/{name}` creates
    a model from it, here or on another server."""
    replica = online(await context.registry.get(name))
    with ExitStack() as stack:
        stack.enter_context(context.downloads.take())
        file = await scratch_file(context.datasets, stack)
        with full_disk():
            await context.registry.ask(replica, lambda replica: replica.copy_snapshot(position, file))
        return Download(file, context.settings.idle_timeout_seconds, stack.pop_all())


@router.delete(
    "/v1/models/{name}/snapshots/{position}",
    summary="Delete a snapshot",
    status_code=204,
    response_class=Response,
    responses=problems(*_STORED, "snapshot_not_found", "snapshot_needed"),
)
@needs("admin")
async def delete_snapshot(context: ContextOf, name: str, position: str) -> Response:
    """Deletes a manual snapshot, by position or by name. If the server still needs the snapshot (the newest, or one
    that the log needs), it becomes automatic and is removed later."""
    replica = online(await context.registry.get(name))
    await context.registry.ask(replica, lambda replica: replica.delete_snapshot(position))
    return Response(status_code=204)


@router.post(
    "/v1/models/{name}/rollback",
    summary="Return to an earlier state",
    response_model=schemas.RolledBack,
    responses=problems(
        *_STORED,
        "model_follows",
        "malformed_json",
        "snapshot_not_found",
        *HISTORY,
        "limit_exceeded",
        "idempotency_in_flight",
        "body_too_large",
        "unsupported_media_type",
        "invalid_request",
        "idempotency_key_reused",
        "queue_full",
    ),
    openapi_extra={**body(schemas.RollbackRequest, example={"position": "1"}), **idempotency.PARAMETER},
)
@needs("admin")
async def rollback(request: Request, context: ContextOf, name: str) -> Response:
    """Returns the model to a snapshot, or to any position or time of its history, at one point of its log, on every
    server: it forgets everything learnt since, metrics included. Later updates continue from that state."""
    replica = online(await context.registry.get(name), NoRollback)
    document, raw = await read_json(request, context.settings.max_body_bytes)
    key = idempotency.idempotency_key(request, "rollback", raw)
    try:
        wanted = schemas.RollbackRequest.model_validate(document)
    except ValidationError as error:
        raise invalid_body(error, (), tuple, {(): schemas.RollbackRequest}) from error
    updated = await _rolled_back(context, replica, _target_of(wanted), key)
    facts = {**receipt(updated, request.scope), "rolled_back_to": updated.rolled_back_to}
    return json_answer(facts, headers=[idempotency.REPLAYED] if updated.replayed else [])


async def _rolled_back(context: Context, replica: Replica, to: str | int, key: IdempotencyKey | None) -> UpdateResult:
    def ask(replica: Replica) -> Awaitable[UpdateResult]:
        return replica.rollback(to, key=key)

    async with context.examining:
        return await context.registry.ask(replica, ask)


def _target_of(wanted: schemas.RollbackRequest) -> str | int:
    """Return the position, the name of a snapshot, or the time."""
    given = [field for field in ("position", "name", "time") if getattr(wanted, field) is not None]
    if len(given) > 1:
        raise invalid((given[1],), f"must be left out where there is a {given[0]}")
    if wanted.name is not None:
        return wanted.name
    if wanted.time is not None:
        try:
            if isinstance(at := read_moment(wanted.time), int):
                return at
        except ValueError:
            pass
        raise invalid(("time",), "must be a time with an offset, as 2026-11-27T10:03:00Z")
    try:
        return read_position(wanted.position or "")
    except ValueError:
        detail = "must be a position of this model's log; or send the name of a snapshot, or a time, instead"
        raise invalid(("position",), detail) from None


def _to_dict(record: SnapshotMeta) -> dict[str, Any]:
    return {
        "position": record.position,
        "bytes": record.size_bytes,
        "created": rfc3339(record.created_unix_ms),
        "pinned": record.pinned,
        "manual": record.kept is not None,
        "name": record.kept and record.kept.name,
        "note": record.kept and record.kept.note,
    }
