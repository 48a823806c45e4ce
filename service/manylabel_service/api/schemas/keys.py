"""Bodies of requests and answers about keys."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from manylabel_service.access import patterns
from manylabel_service.access.key import NO_RATES, RateLimits, State
from manylabel_service.access.scopes import SCOPES, Scope
from manylabel_service.api.schemas.base import ResponseModel

MAX_PATTERNS = 100
"""Patterns of one key."""
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
        raise ValueError("must be a time as 2027-01-31T12:00:00Z, with an offset or Z, or null")
    return at


def _check_later(at: datetime) -> datetime:
    if not datetime.now(UTC) < at <= LATEST:
        raise ValueError("must be in the future, and at most 9999-12-31T23:59:59Z")
    return at


_Name = Annotated[str, Field(strict=True, min_length=1, max_length=256)]
_Note = Annotated[
    str, Field(strict=True, json_schema_extra={"maxLength": MAX_NOTE_CHARACTERS}), AfterValidator(_check_note)
]
_Pattern = Annotated[
    str, Field(strict=True, json_schema_extra={"pattern": patterns.PATTERN}), AfterValidator(_check_pattern)
]
_Expiry = Annotated[Annotated[AwareDatetime, AfterValidator(_check_later)] | None, BeforeValidator(_read_time)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class KeyRequest(_Request):
    """A key that is to be made."""

    name: _Name
    """The name says to people whose key it is, or what for."""
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=len(SCOPES))]
    """The key is for calls that need these scopes; `admin` includes all others."""
    models: Annotated[list[_Pattern], Field(min_length=1, max_length=MAX_PATTERNS)] = [patterns.ANY]
    """The key is for these models, data sets and targets of jobs: names, or how names begin and `*` at the end."""
    expires_at: _Expiry = None
    """The key counts until then (RFC 3339, with an offset or Z); null for ever."""
    note: _Note | None = None
    """The note is for people."""
    rates: RateLimits = NO_RATES
    """The key is limited to this."""


class KeyChange(_Request):
    """Changes of a key; what is left out stays as it is."""

    name: _Name = Field(default_factory=str)
    """The new name."""
    expires_at: _Expiry = None
    """The key counts until then (RFC 3339, with an offset or Z); null for ever."""
    note: _Note | None = None
    """The new note; null for none."""
    rates: RateLimits | None = None
    """The new limits, all of them; null for none."""


class KeyStatus(ResponseModel):
    """A key, without its secret."""

    id: str
    """The part of the key between the two underscores."""
    name: str
    note: str | None
    scopes: list[Scope]
    models: list[str]
    """The key is for these models, data sets and targets of jobs: names, or how names begin and `*` at the end."""
    created_at: str
    """RFC 3339, UTC, as the other times."""
    expires_at: str | None
    """The key counts until then; null for ever."""
    revoked_at: str | None
    """The key was revoked then; null if it was not."""
    rates: RateLimits
    state: State
    """A key that is expired or revoked opens nothing."""


class NewKey(KeyStatus):
    """A key that has just been made, with its text."""

    key: str
    """The whole key, `ml_<id>_<secret>`, which is shown this once."""


class KeyList(ResponseModel):
    """The keys that the caller may see, the newest first."""

    keys: list[KeyStatus]
    damaged: list[str] = Field(default_factory=list)
    """Ids of keys that cannot be read; only there if there are any, for a caller whose key is for all models."""
