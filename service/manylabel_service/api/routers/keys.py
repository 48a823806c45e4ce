"""/v1/keys: API keys."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.access.key import Key, new_key
from manylabel_service.access.rates import NO_RATES
from manylabel_service.api import schemas
from manylabel_service.api.context import ContextOf
from manylabel_service.api.web.access import AccessOf
from manylabel_service.api.web.large_json import read_model
from manylabel_service.api.web.problems import invalid
from manylabel_service.api.web.routes import Router, json_answer, listed
from manylabel_service.clock import now_ms, rfc3339, unix_ms

router = Router("keys", errors=["key_not_found"])

_EXAMPLE = {"name": "the tagging page", "scopes": ["predict"], "models": ["tags-*"]}


@router.endpoint(
    "POST /v1/keys",
    "Create a key",
    "admin",
    schemas.NewKey,
    ["beyond_own_key", "limit_exceeded"],
    takes=schemas.KeyRequest,
    example=_EXAMPLE,
    status=201,
)
async def create_key(request: Request, context: ContextOf, access: AccessOf) -> Response:
    """Creates a key. The response contains the key, which is shown only once, because the server stores a hash. A key
    cannot have more permissions, a later expiry or higher rates than the key that creates it. Once a key exists, every
    request needs one, so the first key needs the scope `admin` for all models."""
    wanted, _ = await read_model(request, context.settings.max_body_bytes, schemas.KeyRequest)
    context.registry.require_ready()
    facts = dict(wanted)
    expires_at = facts.pop("expires_at")
    key, text = new_key(**facts, expires_unix_ms=expires_at and unix_ms(expires_at))
    await context.keyring.add(key, access)
    headers = [(b"location", f"/v1/keys/{key.id}".encode())]
    return json_answer({**_to_dict(key), "key": text}, 201, headers)


@router.endpoint("GET /v1/keys", "List keys", "admin", schemas.KeyList)
async def list_keys(context: ContextOf, access: AccessOf) -> Response:
    """Lists the keys whose permissions do not exceed the caller's, newest first, including expired and revoked ones."""
    context.registry.require_ready()
    keys, damaged = await context.keyring.list(access)
    return json_answer(listed("keys", [_to_dict(key) for key in keys], damaged))


@router.endpoint("GET /v1/keys/{key_id}", "Show a key", "admin", schemas.KeyStatus)
async def show_key(context: ContextOf, access: AccessOf, key_id: str) -> Response:
    """Shows the permissions of a key, never its secret."""
    context.registry.require_ready()
    return json_answer(_to_dict(await context.keyring.get(key_id, access)))


@router.endpoint(
    "PATCH /v1/keys/{key_id}",
    "Change a key",
    "admin",
    schemas.KeyStatus,
    ["beyond_own_key"],
    takes=schemas.KeyChange,
    example={"expires_at": "2099-01-31T12:00:00Z"},
)
async def change_key(request: Request, context: ContextOf, access: AccessOf, key_id: str) -> Response:
    """Changes the name, note, expiry or rates of a key, the last two within those of the caller's key. Scopes and
    models cannot be changed: create another key instead."""
    wanted, _ = await read_model(request, context.settings.max_body_bytes, schemas.KeyChange)
    context.registry.require_ready()
    return json_answer(_to_dict(await context.keyring.change(key_id, _changes(wanted), access)))


@router.endpoint(
    "DELETE /v1/keys/{key_id}",
    "Revoke a key",
    "admin",
    answers={202: {"description": "Revoked on this server, but not stored yet", "model": schemas.KeyStatus}},
    status=204,
)
async def revoke_key(context: ContextOf, access: AccessOf, key_id: str) -> Response:
    """Revokes a key: this server rejects it at once, other servers of the store within a second. Revoked keys stay in
    the list until the limit of keys is reached. A damaged key is deleted; the caller's key must include all models. If
    the store is full or unavailable, the response is 202: this server rejects the key, and tries every second to store
    the revocation. Until that succeeds, other servers accept the key, and so does this one after a restart."""
    context.registry.require_ready()
    unstored = await context.keyring.revoke(key_id, access)
    return Response(status_code=204) if unstored is None else json_answer(_to_dict(unstored), 202)


def _changes(wanted: schemas.KeyChange) -> dict[str, Any]:
    """Return the changed fields of a key."""
    given = {name: getattr(wanted, name) for name in wanted.model_fields_set}
    if not given:
        raise invalid((), "must have at least one of name, note, expires_at and rates")
    if "expires_at" in given:
        expires_at = given.pop("expires_at")
        given["expires_unix_ms"] = expires_at and unix_ms(expires_at)
    if "rates" in given:
        given["rates"] = given["rates"] or NO_RATES
    return given


def _to_dict(key: Key) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "note": key.note,
        "scopes": key.scopes,
        "models": key.models,
        "created_at": rfc3339(key.created_unix_ms),
        "expires_at": key.expires_unix_ms and rfc3339(key.expires_unix_ms),
        "revoked_at": key.revoked_unix_ms and rfc3339(key.revoked_unix_ms),
        "rates": key.rates.model_dump(),
        "state": key.state(now_ms()),
    }
