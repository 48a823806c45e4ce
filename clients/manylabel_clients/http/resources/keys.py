"""API keys of a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from enum import Enum
from typing import Any, Final, Literal

from manylabel_clients.http.resources.resource import AsyncResource, Resource, SyncResource, call, given, path_of
from manylabel_clients.http.responses import ApiKey, NewApiKey, RateLimits
from manylabel_clients.http.transport.exchange import Exchange, read
from manylabel_clients.http.transport.json_body import encode


class _Unchanged(Enum):
    UNCHANGED = "unchanged"


UNCHANGED: Final = _Unchanged.UNCHANGED
"""Marker of an unchanged field of a key, because None is a value of some fields."""
_Unset = Literal[_Unchanged.UNCHANGED]

Expiry = str | datetime | None
"""Time with an offset, as a `datetime` or RFC 3339; None: no expiry."""


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
        """Create a key, whose permissions must not exceed those of the caller's key. Once the server has a key, every
        call needs one.

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
        """Return the keys whose permissions do not exceed those of the caller's key, newest first, including expired
        and revoked keys."""
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
