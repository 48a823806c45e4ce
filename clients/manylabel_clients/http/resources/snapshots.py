"""Snapshots of a model: states that the server keeps, and that it can go back to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from manylabel_clients.http.resources.predictions import Updated, updated
from manylabel_clients.http.resources.records import from_json, list_reader
from manylabel_clients.http.resources.requests import Requests, is_replay, new_key
from manylabel_clients.http.transport.exchange import Exchange, read
from manylabel_clients.http.transport.json_body import encode


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot is a state as it was, kept on the server."""

    position: str
    """Where the model stood in its log. Opaque."""
    bytes: int
    """Its size."""
    created: str
    """When: RFC 3339, UTC."""
    pinned: bool
    """A rollback needs it, so it stays although newer ones come."""


@dataclass(frozen=True, slots=True)
class RolledBack(Updated):
    """A receipt of a rollback says in `updates` what the model has learnt now."""

    rolled_back_to: str = ""
    """Position of the snapshot."""


class SnapshotRequests(Requests):
    """Requests about the snapshots of one model."""

    def snapshots(self) -> Exchange[list[Snapshot]]:
        """Return the states of the model that are kept, the newest first."""
        return (yield from self._get(f"{self._path}/snapshots", list_reader("snapshots", partial(from_json, Snapshot))))

    def take_snapshot(self) -> Exchange[Snapshot]:
        """Keep the present state."""
        response = yield from self._post(f"{self._path}/snapshots", None)
        return read(response, partial(from_json, Snapshot))

    def download_snapshot(self, position: str) -> Exchange[bytes]:
        """Return a state that is kept, as a safetensors file; `upload_model` makes a model of it."""
        return (yield from self._download(f"{self._path}/snapshots/{quote(position, safe='')}"))

    def rollback(self, position: str, *, key: str | None = None) -> Exchange[RolledBack]:
        """Forget what was learnt after a snapshot, on every server that has the model."""
        response = yield from self._post(f"{self._path}/rollback", encode({"position": position}), new_key(key))
        return read(response, lambda answer: _rolled_back(answer, is_replay(response)))


def _rolled_back(answer: Mapping[str, Any], replayed: bool) -> RolledBack:
    receipt = updated(answer, replayed)
    return RolledBack(receipt.position, receipt.updates, receipt.durability, replayed, answer["rolled_back_to"])
