"""Processes that share a store.

Each process describes itself in a separate document, which it rewrites every `HEARTBEAT_SECONDS`. A document that was
not rewritten for `EXPIRY_SECONDS` is removed, because its process has died or hangs. Clocks of other machines are not
used, and time in which the store was unavailable does not count. With each heartbeat, a process also reads the format
number of the store, and stops using a store that a newer release has taken over.
"""

import asyncio
import os
import platform
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog
from pydantic import Field

from manylabel_service.clock import now_ms, rfc3339
from manylabel_service.environment import secrets, time
from manylabel_service.errors import RevisionConflict, StorageError, StorageUnavailable, StoreTooNew
from manylabel_service.models.build import build_id
from manylabel_service.release import FORMAT
from manylabel_service.storage import UNREADABLE, Collection, Store, StoredModel

KIND = "replicas"
"""Kind of the documents in which processes describe themselves."""

HEARTBEAT_SECONDS = 2.0
EXPIRY_SECONDS = 10.0
MAX_PASSED_SECONDS = 2 * HEARTBEAT_SECONDS
"""Maximum seconds counted between two polls, in case this process was suspended."""
MAX_MODELS = 100
"""Maximum number of models whose positions a replica reports, and maximum number of withheld models that it reports."""

log = structlog.get_logger()


class Member(StoredModel):
    """Description of itself that a process publishes in the store."""

    id: str
    role: str = "server"
    host: str = ""
    pid: int = 0
    build: str = ""
    supports: int = 1
    """Highest format number of a store that the process supports."""
    started_at: str = ""
    ready: bool = False
    models: dict[str, str] = Field(default_factory=dict)
    """Log positions of the most recently used models in memory."""
    withheld: dict[str, str] = Field(default_factory=dict)
    """Models that another release must serve, with the error code."""


class Membership:
    """Membership of this process in the group of processes that share a store.

    Parameters
    ----------
    store : the store; if it cannot be shared, this process is the only member.
    role : ``"server"`` or ``"worker"``.

    Attributes
    ----------
    describe : returns the fields `ready`, `models` and `withheld` of this process's `Member`.
    format : format number of the store.
    refusal : reason why this process must not participate; None if it may.
    """

    def __init__(self, store: Store, role: str) -> None:
        self._store = store
        self._members = Collection(store.documents, KIND, Member)
        self.describe: Callable[[], dict[str, Any]] = dict
        self._own = Member(
            id=secrets.token_hex(8),
            role=role,
            host=platform.node(),
            pid=os.getpid(),
            supports=FORMAT,
            started_at=rfc3339(now_ms()),
        )
        self._others: dict[str, _Seen] = {}
        self._silent: dict[str, int] = {}
        """Revisions of the unreadable descriptions of processes that have timed out."""
        self._looked_at = 0.0
        self._wake = asyncio.Event()
        self.format = FORMAT
        self.refusal: StoreTooNew | None = None

    @property
    def id(self) -> str:
        """Id of this member."""
        return self._own.id

    @property
    def members(self) -> list[Member]:
        """All members, including this one, in order of their start. Descriptions of others are from their latest
        heartbeat."""
        members = [self._description(), *(seen.member for seen in self._others.values())]
        return sorted(members, key=lambda member: (member.started_at, member.id))

    @property
    def leads(self) -> bool:
        """True for the server that has been ready longest, which does the work that only one server should do.

        Two servers may both lead for some seconds if one of them hung.
        """
        ready = [member.id for member in self.members if member.role == "server" and member.ready]
        return self.refusal is None and ready[:1] == [self.id]

    @property
    def must_agree(self) -> bool:
        """True if a server with another build is a member."""
        return bool(self._of_other_builds())

    # -- joining and leaving --------------------------------------------------------------------------

    async def join(self) -> None:
        """Join the cluster; a second call joins again. Raises StorageError."""
        self._own.build = await asyncio.to_thread(build_id)
        await self._beat()

    async def leave(self) -> None:
        """Leave the cluster."""
        if self._own.revision:
            self._own.at(0)
            with suppress(StorageError):  # the description is removed when it expires
                await self._members.delete(self.id)

    def announce(self) -> None:
        """Send the next heartbeat now: this process has become ready."""
        self._wake.set()

    async def run(self) -> None:
        """Send heartbeats until cancelled, or until the store has a newer format."""
        while self.refusal is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self._beat()
            except StoreTooNew as error:
                self.refusal = error
                log.error("release_too_old", error=str(error), action="run the newer release; other replicas serve it")
            except StorageUnavailable:
                self._looked_at = 0.0
            except Exception:
                log.exception("membership_failed")

    async def _beat(self) -> None:
        self.format = await self._store.format()
        await self._tell()
        await self.look()

    # -- documents --------------------------------------------------------------------------------

    def _description(self) -> Member:
        return self._own.model_copy(update=self.describe())

    async def _tell(self) -> None:
        """Write the description of this member."""
        if not self._store.shared:
            return
        description = self._description()
        while True:
            try:
                self._own.at((await self._members.put(self.id, description)).revision)
            except RevisionConflict as error:  # the document was removed, or a response was lost
                description.at(error.found or 0)
            else:
                return

    async def look(self) -> None:
        """Read the descriptions of the other processes; remove those that have timed out. Raises StorageUnavailable."""
        if not self._store.shared:
            return
        members = await self._members.all()
        now = time.monotonic()
        passed = min(now - self._looked_at, MAX_PASSED_SECONDS) if self._looked_at else 0.0
        self._looked_at = now
        others = {}
        for id, member in members.items():
            if id == self.id or (self._silent.get(id) == member.revision):
                continue
            unreadable = isinstance(member, UNREADABLE)
            if isinstance(member, UNREADABLE):
                member = Member(id=id, release="").at(member.revision)
            member = member.model_copy(update={"id": id})
            before = self._others.get(id)
            if before is None or before.member.revision != member.revision:
                others[id] = _Seen(member)
                continue
            before.age += passed
            if before.age < EXPIRY_SECONDS or not await self._removed(before.member, unreadable):
                others[id] = before
        self._others = others

    async def _removed(self, member: Member, unreadable: bool) -> bool:
        """Remove the description of a process that has timed out; an unreadable one stays, and is ignored."""
        if unreadable:
            self._silent[member.id] = member.revision
            log.error("replica_unreadable", replica=member.id, action="it is ignored until it changes")
            return True
        removed = await self._members.delete(member.id, member.revision)
        if removed:
            log.warning("replica_expired", replica=member.id)
        return removed

    def _servers(self) -> list[Member]:
        return [seen.member for seen in self._others.values() if seen.member.role == "server"]

    def _of_other_builds(self) -> list[Member]:
        return [member for member in self._servers() if member.build != self._own.build]


@dataclass
class _Seen:
    """Last description of another member, and the seconds since it changed."""

    member: Member
    age: float = 0.0
