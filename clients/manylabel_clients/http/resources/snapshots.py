"""Snapshots and log of a model."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

from manylabel_clients.http.resources.predictions import Updated, updated
from manylabel_clients.http.resources.records import from_json, list_reader
from manylabel_clients.http.resources.requests import Requests, is_replay, new_key
from manylabel_clients.http.transport.exchange import Exchange, read
from manylabel_clients.http.transport.json_body import encode

_POSITION = re.compile("[0-9]+(-[0-9]+)*")
"""Pattern of positions; names of snapshots never match it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Stored state of a model."""

    position: str
    """Log position of the snapshot. Opaque."""
    bytes: int
    """Size in bytes."""
    created: str
    """Time of the snapshot (RFC 3339, UTC)."""
    pinned: bool
    """Whether a rollback in the log needs the snapshot, so that it is retained."""
    manual: bool
    """True for a manual snapshot, which stays until it is deleted."""
    name: str | None
    """Name, which can be used instead of the position."""
    note: str | None


@dataclass(frozen=True, slots=True)
class RolledBack(Updated):
    """Result of a rollback; `updates` is the resulting number of learnt examples."""

    rolled_back_to: str = ""
    """Position of the restored state."""


class SnapshotRequests(Requests):
    """Requests about the snapshots of one model."""

    def snapshots(self) -> Exchange[list[Snapshot]]:
        """Return the snapshots of the model, newest first."""
        return (yield from self._get(f"{self._path}/snapshots", list_reader("snapshots", partial(from_json, Snapshot))))

    def take_snapshot(self, name: str | None = None, note: str | None = None) -> Exchange[Snapshot]:
        """Take a manual snapshot, which stays until it is deleted."""
        given = {part: value for part, value in (("name", name), ("note", note)) if value is not None}
        response = yield from self._post(f"{self._path}/snapshots", encode(given) if given else None)
        return read(response, partial(from_json, Snapshot))

    def download_snapshot(self, snapshot: str) -> Exchange[bytes]:
        """Return a snapshot, by position or name, as a safetensors file for `upload_model`."""
        return (yield from self._download(self._snapshot_path(snapshot)))

    def delete_snapshot(self, snapshot: str) -> Exchange[None]:
        """Delete a manual snapshot, by its position or name; it stays while the model itself needs it."""
        yield from self._delete(self._snapshot_path(snapshot))

    def rollback(self, to: str, *, key: str | None = None) -> Exchange[RolledBack]:
        """Roll the model back to a position, a snapshot's name or a time (``2026-11-27T10:03:00Z``), on every server.

        Raises NotFound if there is no such state, and Expired if the history of the model begins later.
        """
        part = "position" if _POSITION.fullmatch(to) else "time" if ":" in to else "name"
        response = yield from self._post(f"{self._path}/rollback", encode({part: to}), new_key(key))
        return read(response, lambda answer: _rolled_back(answer, is_replay(response)))

    def log(
        self, start: str | None = None, to: str | None = None, limit: int = 1_000
    ) -> Exchange[list[dict[str, Any]]]:
        """Return entries of the log (docs/history.md), the earliest first: after `start`, up to `to` (positions or
        times).

        A list shorter than `limit` (at most 10,000) is not the end of the log; an empty list is.
        """
        given = {"from": start, "to": to, "limit": limit}
        query = urlencode({name: value for name, value in given.items() if value is not None})
        content = yield from self._download(f"{self._path}/log?{query}")
        return [json.loads(line) for line in content.splitlines()]

    def _snapshot_path(self, snapshot: str) -> str:
        return f"{self._path}/snapshots/{quote(snapshot, safe='')}"


def _rolled_back(answer: Mapping[str, Any], replayed: bool) -> RolledBack:
    receipt = updated(answer, replayed)
    return RolledBack(receipt.position, receipt.updates, receipt.durability, replayed, answer["rolled_back_to"])
