"""Processes that share a store, their releases, and the resulting cluster version.

Each replica describes itself in a separate document, which it rewrites every `HEARTBEAT_SECONDS`. A document not
rewritten for `EXPIRY_SECONDS` is removed: its process has died or hangs. Clocks of other machines are not used, and
time in which the store was unavailable does not count.

Another document, the cluster version, states the versions in use. When all replicas support later versions, one of them
raises the cluster version; it is never lowered. A joining replica describes itself first, and then writes the cluster
version again unchanged. If another replica raises it at the same time, one of the two writes fails: either the other
replica reads all descriptions again, including the new one, or the joining replica finds that it is too old.
"""

import asyncio
import os
import platform
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog
from pydantic import Field

from manylabel_service.clock import now_ms, rfc3339
from manylabel_service.errors import (
    DocumentDamaged,
    ReleaseTooOld,
    RevisionConflict,
    StorageError,
    StorageUnavailable,
    StoreUnusable,
)
from manylabel_service.models.build import build_id
from manylabel_service.online.spec.release import HIGHEST, LOWEST, ClusterVersion, Versions
from manylabel_service.storage import UNREADABLE, Collection, ModelMeta, Store, StoredModel

KIND = "replicas"
IN_USE = "in-use"
"""Kind and name of the document that states the versions in use."""

HEARTBEAT_SECONDS = 2.0
EXPIRY_SECONDS = 10.0
MAX_PASSED_SECONDS = 2 * HEARTBEAT_SECONDS
"""Maximum seconds counted between two polls, in case this process was suspended."""
MAX_MODELS = 1_000
"""Maximum number of models whose positions a replica reports, and of those that it withholds."""

log = structlog.get_logger()


class Member(StoredModel):
    """Description of itself that a process publishes in the store."""

    id: str
    role: str = "server"
    host: str = ""
    pid: int = 0
    build: str = ""
    formats: tuple[int, int] = (LOWEST.format, LOWEST.format)
    replay_versions: tuple[int, int] = (LOWEST.replay_version, LOWEST.replay_version)
    started_at: str = ""
    ready: bool = False
    models: dict[str, str] = Field(default_factory=dict)
    """Models in memory with their log positions."""
    withheld: dict[str, str] = Field(default_factory=dict)
    """Models that another release must serve, with the error code."""
    asks: dict[str, int] = Field(default_factory=dict)
    """Models, with incarnations, whose snapshots the process needs for comparison."""


class VersionsInUse(StoredModel):
    """Document of the versions in use."""

    format_version: int = LOWEST.format
    replay_version: int = LOWEST.replay_version


class Membership:
    """Membership of this process in the group of processes that share a store.

    Parameters
    ----------
    store : the store; if it cannot be shared, this process is the only member.
    role : ``"server"`` or ``"worker"``.
    in_use : receives the versions in use.
    describe : returns the fields `ready`, `models` and `withheld` of this process's `Member`.
    on_asked : called with the name and the incarnation of each model whose snapshot another process needs, until it
        returns True.
    known : first and last versions that this process supports.

    Attributes
    ----------
    refusal : reason why this process must not participate; None if it may.
    """

    def __init__(
        self,
        store: Store,
        role: str,
        in_use: ClusterVersion,
        describe: Callable[[], dict[str, Any]] = dict,
        on_asked: Callable[[str, int], bool] = lambda name, incarnation: False,
        known: tuple[Versions, Versions] = (LOWEST, HIGHEST),
    ) -> None:
        self._first, self._last = known
        self._members = Collection(store.documents, KIND, Member)
        self._versions = Collection(store.documents, IN_USE, VersionsInUse)
        self._shared = store.shared
        self._in_use = in_use
        self._describe = describe
        self._on_asked = on_asked
        self._own = Member(
            id=secrets.token_hex(8),
            role=role,
            host=platform.node(),
            pid=os.getpid(),
            formats=(self._first.format, self._last.format),
            replay_versions=(self._first.replay_version, self._last.replay_version),
            started_at=rfc3339(now_ms()),
        )
        self._others: dict[str, _Seen] = {}
        self._silent: dict[str, int] = {}
        """Revisions of the unreadable descriptions of processes that have timed out."""
        self._answered: set[tuple[str, str, int]] = set()
        self._told_before: dict[str, dict[str, int]] = {}
        self._looked_at = 0.0
        self._wake = asyncio.Event()
        self.refusal: ReleaseTooOld | None = None

    @property
    def id(self) -> str:
        """Id of this member."""
        return self._own.id

    @property
    def members(self) -> list[Member]:
        """All members, including this one, in order of their start; the others as of their latest heartbeat."""
        members = [self._description(), *(seen.member for seen in self._others.values())]
        return sorted(members, key=lambda member: (member.started_at, member.id))

    @property
    def leads(self) -> bool:
        """True for the server that has been ready longest, which does the work that only one server must do.

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
        """Join the cluster; a second call joins again. Raises ReleaseTooOld, StoreUnusable or StorageError."""
        self._own.build = await asyncio.to_thread(build_id)
        try:
            await self._tell()
            await self._follow_versions(entering=True)
        except (ReleaseTooOld, StoreUnusable):
            await self.leave()
            raise

    async def leave(self) -> None:
        """Leave the cluster."""
        if self._own.revision:
            self._own.at(0)
            with suppress(StorageError):  # it is removed when it expires
                await self._members.delete(self.id)

    def announce(self) -> None:
        """Send the next heartbeat now: this process has become ready."""
        self._wake.set()

    async def run(self) -> None:
        """Send heartbeats and update the versions in use, until cancelled."""
        while self._shared and self.refusal is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self._beat()
            except StorageUnavailable:
                self._looked_at = 0.0
            except ReleaseTooOld as error:
                self.refusal = error
                log.error("release_too_old", error=str(error), action="other replicas serve it; run the newer release")
            except Exception:
                log.exception("membership_failed")

    async def _beat(self) -> None:
        await self._follow_versions(entering=await self._tell())
        asked = {(member.id, *ask) for member in self._servers() for ask in member.asks.items()}
        self._answered &= asked
        self._answered |= {ask for ask in asked - self._answered if self._on_asked(*ask[1:])}

    # -- snapshots to compare with ----------------------------------------------------------------

    def ask(self, record: ModelMeta) -> bool:
        """Request a snapshot of a model; return whether a server with another build may have the model in memory.

        Descriptions that such a server wrote before the request are ignored.
        """
        name = record.name
        if name not in self._own.asks:
            self._own.asks[name] = record.incarnation
            self._told_before[name] = {id: seen.member.revision for id, seen in self._others.items()}
            self._wake.set()
        before = self._told_before[name]
        return any(
            name in member.models or member.revision == before.get(member.id) for member in self._of_other_builds()
        )

    def ask_no_more(self, record: ModelMeta) -> None:
        """Withdraw the request for a snapshot."""
        self._own.asks.pop(record.name, None)
        self._told_before.pop(record.name, None)

    # -- documents --------------------------------------------------------------------------------

    def _description(self) -> Member:
        return self._own.model_copy(update=self._describe())

    async def _tell(self) -> bool:
        """Write the description of this member; return whether other members may have considered it dead."""
        if not self._shared:
            return False
        description, entering = self._description(), False
        while True:
            try:
                self._own.at((await self._members.put(self.id, description)).revision)
            except RevisionConflict as error:  # the document was removed, or a response was lost
                description.at(error.found or 0)
                entering = True
            else:
                return entering

    async def _follow_versions(self, entering: bool) -> None:
        """Read the cluster version; write it if this member is `entering`, or if all members support a later
        version."""
        while True:
            damaged: DocumentDamaged | None = None
            try:
                document = await self._versions.get(IN_USE)
            except DocumentDamaged as error:
                document, damaged = None, error
            used = LOWEST if document is None else Versions(document.format_version, document.replay_version)
            last = self._last
            if used.format > last.format or used.replay_version > last.replay_version:
                raise ReleaseTooOld(
                    f"the store uses format version {used.format} and replay version {used.replay_version}; this "
                    f"release supports up to format version {last.format} and replay version {last.replay_version}"
                )
            await self.look()
            due = self._raised(used)
            if damaged is not None:
                if entering:
                    action = "the versions that all running processes support are used"
                    log.error("versions_in_use_damaged", error=str(damaged), action=action)
            elif document is None or due != used or (entering and self._shared):
                raised = document or VersionsInUse()
                fields = {"format_version": due.format, "replay_version": due.replay_version}
                try:
                    await self._versions.put(IN_USE, raised.model_copy(update=fields))
                except RevisionConflict:
                    continue
            if due != self._in_use.versions:
                log.info("versions_in_use", **due._asdict())
            self._in_use.versions = due
            return

    def _raised(self, used: Versions) -> Versions:
        """Return the highest versions that all members support, and at least those in use."""
        others = [seen.member for seen in self._others.values()]
        format = max(used.format, min([self._last.format, *(member.formats[1] for member in others)]))
        replay_version = max(
            used.replay_version, min([self._last.replay_version, *(member.replay_versions[1] for member in others)])
        )
        if format < self._first.format or replay_version < self._first.replay_version:
            raise StoreUnusable(
                f"the store uses format version {format} and replay version {replay_version}, because replicas of an "
                f"older release share it; this release supports them from format version {self._first.format} and "
                f"replay version {self._first.replay_version}: upgrade to a release in between first"
            )
        return Versions(format, replay_version)

    async def look(self) -> None:
        """Read the descriptions of the other processes; remove those that have timed out. Raises StorageUnavailable."""
        if not self._shared:
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
            if isinstance(member, UNREADABLE):  # it may belong to the oldest release, until it is rewritten
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
