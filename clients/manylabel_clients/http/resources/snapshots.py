"""Snapshots and log of a model."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from manylabel_clients.http.resources.resource import Resource, call, with_query
from manylabel_clients.http.responses import RolledBack, Snapshot
from manylabel_clients.http.transport.exchange import Exchange, read


class SnapshotCalls(Resource):
    """Calls about the snapshots of one model."""

    @call
    def snapshots(self) -> Exchange[list[Snapshot]]:
        """Return the snapshots of the model, newest first."""
        return (yield from self._list(f"{self._path}/snapshots", "snapshots", Snapshot))

    @call
    def take_snapshot(self) -> Exchange[Snapshot]:
        """Take a snapshot of the current state; newer snapshots replace it later."""
        return read((yield from self._post(f"{self._path}/snapshots", None)), Snapshot)

    @call
    def download_snapshot(self, position: str) -> Exchange[bytes]:
        """Return a snapshot as a safetensors file for `upload_model`."""
        return (yield from self._download(f"{self._path}/snapshots/{quote(position, safe='')}"))

    @call
    def rollback(self, to: str, *, key: str | None = None) -> Exchange[RolledBack]:
        """Roll the model back to a position or a time (``2026-11-27T10:03:00Z``), on every server.

        Raises NotFound if there is no such state, and Expired if the history of the model begins later.
        """
        part = "time" if ":" in to else "position"
        return (yield from self._learn(f"{self._path}/rollback", {part: to}, key, RolledBack))

    @call
    def log(
        self, start: str | None = None, to: str | None = None, limit: int = 1_000
    ) -> Exchange[list[dict[str, Any]]]:
        """Return the entries of the log (docs/history.md) after `start`, up to `to` (positions or times), earliest
        first.

        A list shorter than `limit` (at most 10,000) is not the end of the log; an empty list is.
        """
        content = yield from self._download(
            with_query(f"{self._path}/log", **{"from": start, "to": to, "limit": limit})
        )
        return [json.loads(line) for line in content.splitlines()]
