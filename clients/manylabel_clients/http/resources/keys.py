"""API keys of a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Final, Literal

from manylabel_clients.http.resources.resource import AsyncResource, Resource, SyncResource, call, given, path_of
from manylabel_clients.http.transport.exchange import Exchange, read
from manylabel_clients.http.transport.json_body import encode

SCOPES = ("predict", "learn", "read", "train", "export", "admin")
"""Scopes of a key; admin includes all others."""


class _Unchanged(Enum):
    UNCHANGED = "unchanged"


UNCHANGED: Final = _Unchanged.UNCHANGED
"""Marker of an unchanged field of a key, because None is a value of some fields."""
_Unset = Literal[_Unchanged.UNCHANGED]

Expiry = str | datetime | None
"""Time with an offset, as a `datetime` or RFC 3339; None: no expiry."""


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Rate limits of a key; None for no limit."""

    requests_per_second: float | None = None
    """Maximum average rate of requests, with a burst of one second."""
    examples_per_second: float | None = None
    """Maximum average rate of predicted or learnt examples, with a burst of one second."""
    max_concurrent_requests: int | None = None
    """Maximum number of concurrent requests."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """API key of a server with its permissions. The key itself is shown only when it is created."""

    id: str
    """Part of the key between its two underscores; not secret."""
    name: str
    note: str | None
    scopes: list[str]
    models: list[str]
    """Names of models, datasets and job targets, or prefixes that end in ``*``."""
    created_at: str
    """Time of creation (RFC 3339, UTC, like all times)."""
    expires_at: str | None
    """Time of expiry; None: no expiry."""
    revoked_at: str | None
    rates: RateLimits
    state: str
    """``active``, ``expired`` or ``revoked``."""


@dataclass(frozen=True, slots=True)
class NewApiKey(ApiKey):
    """A new key with its text."""

    key: str = field(repr=False)
    """The key, ``ml_...``. Store it: it is not shown again."""


class KeyCalls(Resource):
    """Calls about the keys of a server. Each needs a key with the scope ``admin`` if the server has keys."""

    @call
    def create(
        self,
        name: str,
        *,
        scopes: Sequence[str],
        models: Sequence[str] = ("*",),
        expires_at: Expiry = None,
        note: str | None = None,
        rates: RateLimits | Mapping[str, Any] | None = None,
    ) -> Exchange[NewApiKey]:
        """Create a key within the permissions of the caller's key. From the first key on, every call needs one.

        The call is not retried. If it raises ConnectionFailed with `maybe_done`, a key may exist whose secret was lost:
        revoke it.
        """
        wanted = given(
            name=name,
            scopes=_listed("scopes", scopes),
            models=_listed("models", models),
            expires_at=_time(expires_at),
            note=note,
            rates=_rates(rates),
        )
        # A second attempt could create a second key whose secret no client has.
        return read((yield from self._post("/v1/keys", encode(wanted), once=True)), NewApiKey)

    @call
    def list(self) -> Exchange[list[ApiKey]]:
        """Return the keys whose permissions do not exceed the caller's, newest first, including expired and revoked
        ones."""
        return (yield from self._list("/v1/keys", "keys", ApiKey))

    @call
    def get(self, id: str) -> Exchange[ApiKey]:
        """Return the permissions of a key."""
        return (yield from self._get(path_of("keys", id), ApiKey))

    @call
    def update(
        self,
        id: str,
        *,
        name: str | _Unset = UNCHANGED,
        note: str | _Unset | None = UNCHANGED,
        expires_at: Expiry | _Unset = UNCHANGED,
        rates: RateLimits | Mapping[str, Any] | _Unset | None = UNCHANGED,
    ) -> Exchange[ApiKey]:
        """Change the name, note, expiry or rates (all three, None for no limits) of a key; omitted fields stay.

        Raises ValueError if there is nothing to change. Scopes and models cannot be changed: create another key.
        """
        fields: dict[str, Any] = {"name": name, "note": note}
        fields["expires_at"] = UNCHANGED if expires_at is UNCHANGED else _time(expires_at)
        fields["rates"] = UNCHANGED if rates is UNCHANGED else _rates(rates)
        changes = {part: value for part, value in fields.items() if value is not UNCHANGED}
        if not changes:
            raise ValueError("nothing to change: pass a name, a note, expires_at or rates")
        return read((yield from self._post(path_of("keys", id), encode(changes), method="PATCH")), ApiKey)

    @call
    def revoke(self, id: str) -> Exchange[None]:
        """Revoke a key permanently. All servers of the store reject it within 1 s; it stays in the list."""
        yield from self._delete(path_of("keys", id))


class Keys(KeyCalls, SyncResource):
    """API keys of a server, from `Client.keys`."""


class AsyncKeys(KeyCalls, AsyncResource):
    """API keys of a server, from `AsyncClient.keys`: the calls of `Keys`, awaited."""


def _listed(name: str, given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise TypeError(f"{name} must be a list of strings, not one string")
    return tuple(given)


def _time(at: Expiry) -> str | None:
    if not isinstance(at, datetime):
        return at
    if at.tzinfo is None:
        raise ValueError("expires_at must have an offset: datetime.now(UTC), not datetime.now()")
    return at.isoformat()


def _rates(rates: RateLimits | Mapping[str, Any] | None) -> dict[str, Any] | None:
    return asdict(rates) if isinstance(rates, RateLimits) else None if rates is None else dict(rates)
