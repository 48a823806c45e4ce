"""Audit of requests: which requests are logged, and the line of each."""

import re
import time
from typing import NamedTuple

import pydantic_core
from starlette.types import Scope

from manylabel_service import names
from manylabel_service.clock import rfc3339
from manylabel_service.redaction import redacted

_KINDS = {
    "models": "model",
    "label-studio": "model",
    "datasets": "dataset",
    "jobs": "target",
    "keys": "target",
    "webhooks": "target",
}
"""Kind of the third segment of a path, by its second segment."""
_PARTS = frozenset({"snapshots", "versions"})
"""Parts of a model that have names or numbers."""
_TARGET = re.compile(r"[A-Za-z0-9._:-]{1,128}")
"""Pattern of names and numbers of jobs, keys, webhooks, snapshots and versions."""


class Call(NamedTuple):
    """Completed call, without its body; only the names in its path are written."""

    unix_seconds: float
    key_id: str | None
    address: str | None
    """Network address of the client."""
    request_id: str
    method: str
    route: str | None
    """Path template; None for an unknown path."""
    path: str
    """Path, or the Location of a created object; only the names found by `subject` are written."""
    status: int
    code: str | None
    """Error code of the response."""
    position: str | None = None
    """Log position of the (last) change."""
    lines: int | None = None
    """Number of lines that a stream has learnt."""
    model: str | None = None
    """Model, if the path does not name it."""
    dataset: str | None = None
    """Dataset, if the path does not name it."""
    models: list[str] | None = None
    """Models that the call has deleted or exported, for calls about several models."""

    def to_json(self) -> bytes:
        """Return the call as a line of JSON."""
        line: dict[str, object] = {
            "time": rfc3339(int(self.unix_seconds * 1000)),
            "key_id": self.key_id,
            "address": self.address,
            "request_id": self.request_id,
            "method": self.method,
            "route": self.route,
            "model": self.model,
            "dataset": self.dataset,
            "target": None,
            "status": self.status,
            "code": self.code,
            "position": self.position,
            "lines": self.lines,
            "models": self.models,
        }
        if self.route is not None:
            line |= subject(self.path)
        return pydantic_core.to_json(line) + b"\n"


def subject(path: str) -> dict[str, str]:
    """Return the model or dataset of a path, and its job, key, snapshot or version."""
    _, _, kind, name, part, target, *_ = *path.split("/"), *[""] * 6
    found = {}
    what = _KINDS.get(kind)
    if what == "target":
        target = name
    elif what is not None and names.valid(name):
        found[what] = name
    if (what == "target" or (what == "model" and part in _PARTS)) and _TARGET.fullmatch(target):
        found["target"] = target
    return found


_CHANGING = frozenset({"learn", "train", "export", "admin"})
"""Scopes of calls that change or export something."""
_REFUSED = frozenset({401, 403})


def note(
    scope: Scope,
    *,
    position: str | None = None,
    lines: int = 0,
    model: str | None = None,
    dataset: str | None = None,
    models: list[str] | None = None,
) -> None:
    """Remember fields for the line of the request in the audit log.

    `position` is the position of the last change. `lines` is the number of lines that a stream has learnt since the
    last note. `model` and `dataset` are set if the path does not name them. `models` is set if the call is about
    several models.
    """
    noted = scope.setdefault("audit", {})
    if position is not None:
        noted["position"] = position
    if lines:
        noted["lines"] = noted.get("lines", 0) + lines
    if model is not None:
        noted["model"] = model
    if dataset is not None:
        noted["dataset"] = dataset
    if models is not None:
        noted["models"] = models


def call_of(scope: Scope, method: str, status: int, created: str | None) -> Call | None:
    """Return the audit line of a completed request; None if the request is not audited.

    `scope` is the ASGI scope of the routed request. `created` is the Location of a created object.
    """
    route = scope.get("route")
    if status not in _REFUSED and _CHANGING.isdisjoint(getattr(route, "scopes", ())):
        return None
    access, client = scope.get("access"), scope.get("client")
    return Call(
        time.time(),
        None if access is None else access.key_id,
        None if client is None else client[0],
        scope["request_id"],
        method,
        None if route is None else route.path,
        redacted(created or scope["path"]),
        status,
        scope.get("problem"),
        **scope.get("audit", {}),
    )
