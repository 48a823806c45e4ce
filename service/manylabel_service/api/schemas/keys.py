"""Bodies of requests and responses about keys."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, ConfigDict, Field

from manylabel_service.access import patterns
from manylabel_service.access.key import State
from manylabel_service.access.rates import NO_RATES, RateLimits
from manylabel_service.access.scopes import SCOPES, Scope
from manylabel_service.api.schemas.base import ResponseModel
from manylabel_service.documented import Documented

MAX_PATTERNS = 100
"""Maximum number of model patterns of one key."""
MAX_NOTE_CHARACTERS = 2_000
LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""Latest time at which a key may expire."""


def _check_pattern(pattern: str) -> str:
    if not patterns.valid(pattern):
        raise ValueError(patterns.ALLOWED)
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
Pattern = Annotated[
    str, Field(strict=True, json_schema_extra={"pattern": patterns.PATTERN}), AfterValidator(_check_pattern)
]
_Expiry = Annotated[Annotated[AwareDatetime, AfterValidator(_check_later)] | None, BeforeValidator(_read_time)]


class _Request(Documented):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KeyRequest(_Request):
    """Request to create a key."""

    name: _Name
    """Name for people: the owner or the purpose of the key."""
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=len(SCOPES))]
    """Scopes of the key; `admin` includes all others."""
    models: list[Pattern] = Field([patterns.ANY], min_length=1, max_length=MAX_PATTERNS)
    """Models, datasets and job targets that the key includes: names, or prefixes of names that end in `*`."""
    expires_at: _Expiry = None
    """Expiry (RFC 3339, with an offset or Z); null for never."""
    note: _Note | None = None
    """Note for people."""
    rates: RateLimits = NO_RATES
    """Rate limits of the key."""


class KeyChange(_Request):
    """Changes of a key; omitted fields stay unchanged."""

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
    """RFC 3339, UTC, like the other times."""
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
    damaged: list[str] = Field(default_factory=list)
    """Ids of keys that cannot be read; present only if there are any, for a caller whose key includes all models."""
