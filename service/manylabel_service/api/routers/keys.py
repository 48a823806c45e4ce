"""/v1/keys: API keys."""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from manylabel_service.access.grant import ANY, PATTERN, PATTERN_ALLOWED, SCOPES, Scope, is_pattern
from manylabel_service.access.key import Key, State, new_key
from manylabel_service.access.rates import NO_RATES, RateLimits
from manylabel_service.api.context import ContextOf
from manylabel_service.api.schemas.base import ResponseModel, omitted_if_empty
from manylabel_service.api.web.access import AccessOf
from manylabel_service.api.web.large_json import read_model
from manylabel_service.api.web.problems import invalid
from manylabel_service.api.web.routes import Router, json_response
from manylabel_service.clock import now_ms, rfc3339, unix_ms
from manylabel_service.documented import Documented

router = Router("keys", errors=["key_not_found"])

MAX_PATTERNS = 100
"""Maximum number of model patterns of one key."""
MAX_NOTE_CHARACTERS = 2_000
LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""Latest time at which a key may expire."""


def _check_pattern(pattern: str) -> str:
    if not is_pattern(pattern):
        raise ValueError(PATTERN_ALLOWED)
    return pattern


def _check_note(note: str) -> str:
    if len(note) > MAX_NOTE_CHARACTERS:
        raise ValueError(f"must have at most {MAX_NOTE_CHARACTERS:,} characters")
    return note


def _read_time(value: object) -> datetime | None:
    if value is None:
        return None
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise ValueError("must be a time such as 2027-01-31T12:00:00Z, with an offset or Z, or null")
    return at


def _check_later(at: datetime) -> datetime:
    if not datetime.now(UTC) < at <= LATEST:
        raise ValueError("must be in the future, and at most 9999-12-31T23:59:59Z")
    return at


_Name = Annotated[str, Field(strict=True, min_length=1, max_length=256)]
_Note = Annotated[
    str, Field(strict=True, json_schema_extra={"maxLength": MAX_NOTE_CHARACTERS}), AfterValidator(_check_note)
]
Pattern = Annotated[str, Field(strict=True, json_schema_extra={"pattern": PATTERN}), AfterValidator(_check_pattern)]
_Expiry = Annotated[Annotated[AwareDatetime, AfterValidator(_check_later)] | None, BeforeValidator(_read_time)]


class _Request(Documented):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KeyRequest(_Request):
    """Request to create a key."""

    name: _Name
    """Name for people: the owner or the purpose of the key."""
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=len(SCOPES))]
    """Scopes of the key; `admin` includes all others."""
    models: list[Pattern] = Field([ANY], min_length=1, max_length=MAX_PATTERNS)
    """Models, datasets and job targets that the key includes: names, or prefixes of names that end in `*`."""
    expires_at: _Expiry = None
    """Expiry (RFC 3339, with an offset or Z); null for never."""
    note: _Note | None = None
    """Note for people."""
    rates: RateLimits = NO_RATES
    """Rate limits of the key."""


class KeyChange(_Request):
    """Changes to a key; omitted fields stay unchanged."""

    name: _Name = Field(default_factory=str)
    """New name."""
    expires_at: _Expiry = None
    """Expiry (RFC 3339, with an offset or Z); null for never."""
    note: _Note | None = None
    """New note; null for none."""
    rates: RateLimits | None = None
    """New rate limits, all three; null for none."""


class KeyStatus(ResponseModel):
    """Key without its secret."""

    id: str
    """Part of the key between the two underscores."""
    name: str
    note: str | None
    scopes: list[Scope]
    models: list[str]
    """Models, datasets and job targets that the key includes: names, or prefixes of names that end in `*`."""
    created_at: str
    """Creation time (RFC 3339, UTC, like all times)."""
    expires_at: str | None
    """Expiry; null for never."""
    revoked_at: str | None
    """Time of the revocation; null if the key is not revoked."""
    rates: RateLimits
    state: State
    """State of the key; expired and revoked keys are rejected."""


class NewKey(KeyStatus):
    """New key with its text."""

    key: str
    """The whole key, `ml_<id>_<secret>`, which is shown only once."""


class KeyList(ResponseModel):
    """Keys that the caller may see, newest first."""

    keys: list[KeyStatus]
    damaged: list[str] = omitted_if_empty()
    """Ids of keys that cannot be read; present only if there are any, for a caller whose key includes all models."""


_EXAMPLE = {"name": "the tagging page", "scopes": ["predict"], "models": ["tags-*"]}


@router.endpoint(
    "POST /v1/keys",
    "Create a key",
    "admin",
    NewKey,
    ["beyond_own_key", "limit_exceeded", "storage_full"],
    takes=KeyRequest,
    example=_EXAMPLE,
    status=201,
)
async def create_key(request: Request, response: Response, context: ContextOf, access: AccessOf) -> dict[str, Any]:
    """Creates a key. The response contains the key, which is shown only once, because the server stores a hash. A key
    cannot have more permissions, a later expiry or higher rates than the key that creates it. Once a key exists, every
    request needs one, so the first key needs the scope `admin` for all models."""
    wanted, _ = await read_model(request, KeyRequest)
    context.registry.require_ready()
    facts = dict(wanted)
    expires_at = facts.pop("expires_at")
    key, text = new_key(**facts, expires_unix_ms=expires_at and unix_ms(expires_at))
    await context.keyring.add(key, access)
    response.headers["Location"] = f"/v1/keys/{key.id}"
    return {**_status(key), "key": text}


@router.endpoint("GET /v1/keys", "List keys", "admin", KeyList)
async def list_keys(context: ContextOf, access: AccessOf) -> dict[str, Any]:
    """Lists the keys whose permissions do not exceed those of the caller's key, newest first, including expired and
    revoked keys."""
    context.registry.require_ready()
    keys, damaged = await context.keyring.list(access)
    return {"keys": list(map(_status, keys)), "damaged": damaged}


@router.endpoint("GET /v1/keys/{key_id}", "Show a key", "admin", KeyStatus)
async def show_key(context: ContextOf, access: AccessOf, key_id: str) -> dict[str, Any]:
    """Shows the permissions of a key, never its secret."""
    context.registry.require_ready()
    return _status(await context.keyring.get(key_id, access))


@router.endpoint(
    "PATCH /v1/keys/{key_id}",
    "Change a key",
    "admin",
    KeyStatus,
    ["beyond_own_key", "storage_full"],
    takes=KeyChange,
    example={"expires_at": "2099-01-31T12:00:00Z"},
)
async def change_key(request: Request, context: ContextOf, access: AccessOf, key_id: str) -> dict[str, Any]:
    """Changes the name, note, expiry or rates of a key. Expiry and rates cannot exceed those of the caller's key.
    Scopes and models cannot be changed: create another key instead."""
    wanted, _ = await read_model(request, KeyChange)
    context.registry.require_ready()
    return _status(await context.keyring.change(key_id, _changes(wanted), access))


@router.endpoint(
    "DELETE /v1/keys/{key_id}",
    "Revoke a key",
    "admin",
    responses={202: {"description": "Revoked on this server, but not stored yet", "model": KeyStatus}},
    status=204,
)
async def revoke_key(context: ContextOf, access: AccessOf, key_id: str) -> Response | None:
    """Revokes a key: this server rejects it at once, other servers of the store within a second. Revoked keys stay in
    the list until the limit of keys is reached. A damaged key is deleted; the caller's key must include all models. If
    the store is full or unavailable, the response is 202: this server rejects the key, and tries every second to store
    the revocation. Until the revocation is stored, other servers accept the key, and so does this server after a
    restart."""
    context.registry.require_ready()
    unstored = await context.keyring.revoke(key_id, access)
    return None if unstored is None else json_response(_status(unstored), 202)


def _changes(wanted: KeyChange) -> dict[str, Any]:
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


def _status(key: Key) -> dict[str, Any]:
    return {
        **key.model_dump(include={"id", "name", "note", "scopes", "models", "rates"}),
        "created_at": rfc3339(key.created_unix_ms),
        "expires_at": key.expires_unix_ms and rfc3339(key.expires_unix_ms),
        "revoked_at": key.revoked_unix_ms and rfc3339(key.revoked_unix_ms),
        "state": key.state(now_ms()),
    }
