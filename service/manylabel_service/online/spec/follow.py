"""Part of a stored spec that names the log of another model to follow."""

import json
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from manylabel_service.clock import rfc3339
from manylabel_service.storage import START, Entry, ModelMeta, position_key

FIELD = "follow"
"""Key of the part in a stored spec."""

SWITCHES = "switches"
"""Key, in a stored spec, of the positions at which the model alternately stopped and began to follow."""

MAX_FOLLOWERS = 8
"""Maximum number of followers of one model."""


class Follow(BaseModel, defer_build=True):
    """Followed log, and the part of it to learn.

    The follower learns the entries after `begin`, up to the position `until` or the time `until_ms`, if one is set.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    incarnation: int
    begin: str
    until: str | None = None
    until_ms: int | None = None

    @property
    def record(self) -> ModelMeta:
        """Metadata of the leader, without its spec."""
        return ModelMeta(self.model, self.incarnation, b"")

    def to_json(self) -> dict[str, Any]:
        """Return the JSON for statuses and lists."""
        until = self.until if self.until_ms is None else rfc3339(self.until_ms)
        return {"model": self.model, "begin": self.begin, "until": until}

    @property
    def has_seed(self) -> bool:
        """True if the state at `begin` is stored as the snapshot at `SEED`; otherwise it is empty."""
        return self.begin != START

    def part_of(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the part of some consecutive entries that the follower learns."""
        until = None if self.until is None else position_key(self.until)
        return [
            entry
            for entry in entries
            if (until is None or position_key(entry.position) <= until)
            and (self.until_ms is None or entry.time_ms <= self.until_ms)
        ]


def follow_of(spec: bytes) -> Follow | None:
    """Return the followed log from a stored spec; None for a model with a separate log."""
    if b'"follow"' not in spec:
        return None
    document = json.loads(spec)
    found = document.get(FIELD) if isinstance(document, dict) else None
    return None if found is None else Follow.model_validate(found)


class Roles:
    """Ranges of the log in which a model was a follower, from its stored spec."""

    def __init__(self, spec: bytes) -> None:
        self._follows = follow_of(spec) is not None
        switches = json.loads(spec).get(SWITCHES, ()) if b'"switches"' in spec else ()
        self._switches = [position_key(position) for position in switches]

    def follows_at(self, position: str) -> bool:
        """Return whether the model learnt the entry at a position as a follower."""
        key = position_key(position)
        return self._follows != bool(sum(switch >= key for switch in self._switches) % 2)


def promoted(leader: bytes, follower: bytes, position: str) -> bytes:
    """Return the stored spec of a follower that replaces its leader after a position, with the name of the leader."""
    document = json.loads(follower)
    del document[FIELD]
    document["name"] = json.loads(leader)["name"]
    return _switched(document, position)


def demoted(leader: bytes, follower: bytes, position: str, follow: Follow) -> bytes:
    """Return the stored spec of a leader that follows its successor after a position, under the name of a follower."""
    document = json.loads(leader)
    document["name"] = json.loads(follower)["name"]
    document[FIELD] = follow.model_dump(exclude_none=True)
    return _switched(document, position)


def _switched(document: dict[str, Any], position: str) -> bytes:
    document[SWITCHES] = [*document.get(SWITCHES, ()), position]
    return json.dumps(document).encode()


def as_of(spec: bytes, position: str) -> bytes:
    """Return the stored spec of a model that continues after a position in its current role."""
    document = json.loads(spec)
    if SWITCHES not in document:
        return spec
    key = position_key(position)
    earlier = [switch for switch in document[SWITCHES] if position_key(switch) < key]
    n_later = len(document[SWITCHES]) - len(earlier)
    document[SWITCHES] = [*earlier, *([position] if n_later % 2 else [])]
    return json.dumps(document).encode()


def moved(spec: bytes, incarnation: int) -> bytes:
    """Return the stored spec of a follower whose leader has another incarnation."""
    document = json.loads(spec)
    document[FIELD]["incarnation"] = incarnation
    return json.dumps(document).encode()
