"""Processes that share a store, and the versions in use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KnownVersions:
    """Range of versions that a release supports."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Replica:
    """Description that a process of a store publishes of itself."""

    id: str
    this: bool
    """True for the process that responded."""
    role: str
    """The role is ``server`` or ``worker``."""
    host: str
    pid: int
    release: str
    build: str
    """Digest of code, libraries and architecture."""
    formats: KnownVersions
    """Format versions of log entries and snapshots that it reads."""
    replay_versions: KnownVersions
    """Replay versions that it computes."""
    started_at: str
    ready: bool
    models: dict[str, str]
    """Positions of the models in its memory."""
    withheld: dict[str, str]
    """Models that the process must not serve, each with the error code."""


@dataclass(frozen=True, slots=True)
class Replicas:
    """The processes that share a store, and the versions in use."""

    format: int
    """Format version of log entries and snapshots that are written."""
    replay_version: int
    """Replay version of new models."""
    replicas: list[Replica]
