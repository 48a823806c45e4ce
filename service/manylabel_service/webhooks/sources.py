"""Events for webhooks: from logs of online models, documents of jobs and versions, and stored predictions.

Each source has a cursor in the state of a webhook: a log position, a revision of documents, or a time. After a crash
the events after the cursor are found again, with the same ids. Events of a log are recorded when the model applies
entries; unrecorded parts of the log are replayed.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import groupby
from typing import Any

import structlog

from manylabel_service import ulid
from manylabel_service.clock import now_ms
from manylabel_service.errors import (
    BeforeHistory,
    DocumentDamaged,
    HistoryDamaged,
    ModelDamaged,
    ModelGone,
    ModelNotFound,
    NotReady,
    ReleaseTooOld,
    UnreadableEntry,
)
from manylabel_service.hosting.events import Event, Events
from manylabel_service.hosting.hosted_model import HostedModel
from manylabel_service.hosting.kernels import NotCompiled
from manylabel_service.jobs.job_service import JobService
from manylabel_service.jobs.spec.schemas import Result
from manylabel_service.models.registry import Registry
from manylabel_service.online.history.lineage import LineageStore
from manylabel_service.online.history.reader import HistoryReader
from manylabel_service.online.label_next import needing_review
from manylabel_service.online.replica import Replica
from manylabel_service.online.spec.trained import is_trained
from manylabel_service.online.updates.files import ModelFiles
from manylabel_service.settings import Settings
from manylabel_service.storage import START, UNREADABLE, Collection, ModelMeta, Store, position_key
from manylabel_service.trained.version_store import KIND as VERSIONS
from manylabel_service.trained.version_store import Promoted, VersionCatalogue
from manylabel_service.webhooks.webhook import MAX_NAMED, OF_LOG, DeliveryState, Message, Webhook, message_of

MAX_WAITING = 10_000
"""Maximum number of events of a model in memory until the next poll; older ones are read from the log again."""
PREDICTIONS_AGE_MS = 10_000
"""Minimum age in milliseconds of a stored prediction that is examined.

Its id has the time of the clock of a server, and writing the response may take seconds before the prediction is stored.
"""
LATELY_MS = 180_000
"""Age in milliseconds of the last recorded use of a model at which its log has certainly not changed for
`UNCHANGED_MS`, because a use is recorded within seconds."""
UNCHANGED_MS = 60_000
"""Milliseconds by which `since_unix_ms` of a webhook lies in the past; more than the time until a use is recorded."""
MAX_POSITIONS = 10_000
"""Number of models of a webhook above which the positions of models that have not changed recently are dropped."""
FORGOTTEN_AT_ONCE = 10_000
"""Maximum number of positions dropped at a time."""
POSITIONS_AT_ONCE = 500
"""Number of positions of a webhook whose models are looked up at a time."""
REVIEW_UNCERTAINTY = 0.5
"""Minimum uncertainty of a stored prediction that needs review, if the model promises no precision; 0.5 means a
probability of 1/4 or 3/4 at a threshold of 1/2.
"""

log = structlog.get_logger()

Subscriber = tuple[Webhook, DeliveryState]


class _Feed:
    """Events of one model in memory that webhooks can select: all events after `since`, up to `through`."""

    def __init__(self, record: ModelMeta, events: Events, position: str) -> None:
        self.record, self.events = record, events
        self.since = self.through = position
        self.waiting: list[Event] = []
        self.changed = True
        """Whether there may be something that the webhooks have not seen."""
        events.tap = self._take

    def _take(self, event: Event) -> None:
        self.changed = True
        if event.kind == "dropped":  # the model was restored: events up to here were not published
            self.waiting.clear()
            self.since = self.through = event.position
            return
        if position_key(event.position) <= position_key(self.since):
            return
        if _is_wanted(event):
            self.waiting.append(event)
        if event.resume is None:
            self.through = event.position
        if len(self.waiting) > MAX_WAITING:
            self.forget(self.waiting[MAX_WAITING // 2].position)

    def forget(self, position: str) -> None:
        """Forget the events up to a position."""
        self.since = position
        self.waiting = [each for each in self.waiting if position_key(each.position) > position_key(position)]

    def close(self) -> None:
        """Stop recording events."""
        if self.events.tap == self._take:
            self.events.tap = None


class Sources:
    """Finder of new events for webhooks, which queues them."""

    def __init__(self, store: Store, settings: Settings, registry: Registry, jobs: JobService) -> None:
        self._store, self._settings, self._registry, self._jobs = store, settings, registry, jobs
        self._feeds: dict[int, _Feed] = {}
        self._lineages = LineageStore(store)
        self._replaced: dict[str, tuple[int, ...]] = {}
        """Incarnations of the models that were replaced by successors."""
        self._versions = Collection(store.documents, VERSIONS, VersionCatalogue)
        self._arrived: set[HostedModel] = set()
        """Models in memory that were not examined since they were loaded, or since the webhooks have changed."""
        self._drained_for: list[tuple[Webhook, int]] = []
        """Webhooks, with the ids of their states in this process, for which all feeds were drained."""
        self._looked = False
        """Whether this process has looked since it began or another member was lost."""
        self._known_members: set[str] = set()
        self._examined: dict[str, str] = {}
        """Incarnation up to which the positions of a webhook were examined, by its id."""

    def close(self) -> None:
        """Stop watching all models."""
        for feed in self._feeds.values():
            feed.close()
        self._feeds.clear()
        self._registry.end_arrivals(self._arrived)
        self._drained_for = []

    async def positions(self, webhook: Webhook) -> tuple[dict[str, str], int]:
        """Return the positions, by incarnation, and `since_unix_ms`, for a new webhook, which has seen all logs so
        far."""
        positions, since_unix_ms = dict[str, str](), 0
        resident = {replica.record: replica.position for replica in self._registry.resident() if replica.serving}
        async for (record, unix_ms, age_ms), _ in self._registry.uses.recent():
            since_unix_ms = unix_ms + age_ms - UNCHANGED_MS
            if age_ms > LATELY_MS or not webhook.wants_log:
                break
            if record.damaged or is_trained(record.spec) or not _matches(webhook, record.name):
                continue
            snapshots = [] if record in resident else await self._store.snapshots.all(record)
            newest = next((each.position for each in snapshots if each.listed), START)
            positions[str(record.incarnation)] = resident.get(record, newest)
        return positions, since_unix_ms

    # -- logs -------------------------------------------------------------------------------------

    async def poll(self, subscribers: Sequence[Subscriber]) -> None:
        """Queue new events of logs, jobs and versions; raises StorageError."""
        await self._inherit(subscribers)
        if (present := [(webhook, id(state)) for webhook, state in subscribers]) != self._drained_for:
            for known in self._feeds.values():
                known.changed = True
            self._registry.end_arrivals(self._arrived)
            self._arrived = self._registry.arrivals()
            self._drained_for = present
        for known in list(self._feeds.values()):
            if known.changed:
                await self._drain(known, subscribers)
        for incarnation, feed in list(self._feeds.items()):
            if feed.events.closed or not _interested(subscribers, feed.record.name):
                self._feeds.pop(incarnation).close()
        await self._watch_arrived(subscribers)
        self._poll_jobs(subscribers)
        await self._poll_versions(subscribers)

    async def _watch_arrived(self, subscribers: Sequence[Subscriber]) -> None:
        """Watch the models that were loaded since the last call."""
        for replica in list(self._arrived):
            if replica.catching_up:
                continue
            if isinstance(replica, Replica) and replica.serving and _interested(subscribers, replica.name):
                incarnation = replica.record.incarnation
                feed = self._feeds.get(incarnation)
                if feed is None or feed.events is not replica.events:
                    feed = _Feed(replica.record, replica.events, replica.position)
                    await self._drain(feed, subscribers)
                self._feeds[incarnation] = feed
            self._arrived.discard(replica)

    async def _inherit(self, subscribers: Sequence[Subscriber]) -> None:
        """Continue at the position of a model in its successor."""
        async with self._lineages.changes() as (found, names):
            for name, lineage in found.items():
                if not isinstance(lineage, UNREADABLE) and len(lineage.incarnations) > 1:
                    self._replaced[name] = lineage.incarnations
            for name in () if names is None else self._replaced.keys() - names:
                del self._replaced[name]
        for incarnations in self._replaced.values():
            *earlier, present = map(str, incarnations)
            for _, state in subscribers:
                known = [state.positions[each] for each in (*earlier, present) if each in state.positions]
                if known:
                    state.positions[present] = max(known, key=position_key)

    async def _drain(self, feed: _Feed, subscribers: Sequence[Subscriber]) -> None:
        record = feed.record
        mine = _interested(subscribers, record.name)
        feed.changed = False
        try:
            await self._drain_to(feed, record, mine)
        except BaseException:
            feed.changed = True
            raise

    async def _drain_to(self, feed: _Feed, record: ModelMeta, mine: Sequence[Subscriber]) -> None:
        for _, state in mine:
            await self._find_position(record, state)
        oldest = min((state.position(record) for _, state in mine), key=position_key, default=feed.since)
        if position_key(oldest) < position_key(since := feed.since):
            try:
                found = await ModelFiles(record, self._store).events(oldest, since)
            except (NotCompiled, ModelGone, ReleaseTooOld, UnreadableEntry, DocumentDamaged):
                feed.changed = True
                return  # the events of the other models are found
            if feed.since != since:
                feed.changed = True
                return  # the rest must be read again
            if found is None:
                log.warning("webhook_events_lost", model=record.name, after=oldest, through=since)
            feed.waiting[:0] = filter(_is_wanted, found or ())
            for webhook, state in mine if found is None else ():
                if position_key(state.position(record)) < position_key(since):
                    lost = {"model": record.name, "count": None}
                    state.add(message_of("dropped", lost, webhook.id, record.incarnation, since))
        for webhook, state in mine:
            seen = position_key(state.position(record))
            for message in _messages(record, (each for each in feed.waiting if position_key(each.position) > seen)):
                if message.type in webhook.events:
                    state.add(message)
            if seen < position_key(feed.through):
                state.positions[str(record.incarnation)] = feed.through
        feed.forget(feed.through)

    async def _find_position(self, record: ModelMeta, state: DeliveryState) -> None:
        """Find the position of a model whose log a webhook has seen up to a time."""
        if not state.since_unix_ms or str(record.incarnation) in state.positions:
            return
        reader = HistoryReader(record, self._store)
        try:
            position = await reader.find(state.since_unix_ms)
        except BeforeHistory as error:
            position = error.begin
        except ModelGone:
            return
        except (HistoryDamaged, ModelDamaged, DocumentDamaged):
            position = START
        state.positions[str(record.incarnation)] = position

    async def look(self, subscribers: Sequence[Subscriber]) -> None:
        """Load the models that other servers have changed; queue predictions to review; raises StorageError.

        Only models used since the last call are examined. A server records a use when it loads a model, and then every
        few seconds. A server that dies does not record its last uses. Therefore the first call, and the call after the
        loss of a member, examine all models that may have been in memory.
        """
        await self._inherit(subscribers)
        began_ms = now_ms()
        recent = self._registry.uses.recent(self._seconds_back(subscribers))
        records = [use.record async for use, _ in recent if not use.record.damaged]
        online = [each for each in records if not is_trained(each.spec)]
        oldest: dict[ModelMeta, str] = {}
        for record in online:
            if not self._registry.is_resident(record) and (mine := _interested(subscribers, record.name)):
                for _, state in mine:
                    await self._find_position(record, state)
                oldest[record] = min((state.position(record) for _, state in mine), key=position_key)
        for record, n_entries in (await self._store.logs.entries_after(oldest, 1)).items() if oldest else ():
            if n_entries:
                await self._loaded(record)
        await self._review(online, [pair for pair in subscribers if "review" in pair[0].events])
        lately = {str(record.incarnation) for record in records}
        for webhook, state in subscribers:
            state.looked_unix_ms = began_ms
            await self._forget_deleted(webhook, state)
            if len(state.positions) > MAX_POSITIONS and self._looked:
                await self._forget_unchanged(state, lately)
        self._looked = True

    def _seconds_back(self, subscribers: Sequence[Subscriber]) -> float:
        """Return the age in seconds of the uses that a look must examine; 0 for all."""
        members = {member.id for member in self._registry.membership.members}
        if self._known_members - members:
            self._looked = False
        self._known_members = members
        since_ms = min((state.looked_unix_ms for _, state in subscribers), default=0)
        in_memory_seconds = self._settings.limits.evict_idle_seconds
        if not since_ms or not (self._looked or in_memory_seconds):
            return 0.0
        seconds = max(0, now_ms() - since_ms) / 1_000
        return seconds + LATELY_MS / 1_000 + (0.0 if self._looked else in_memory_seconds)

    async def _forget_deleted(self, webhook: Webhook, state: DeliveryState) -> None:
        """Forget the positions of deleted models, some at a time."""
        known = sorted(state.positions)
        later = [each for each in known if each > self._examined.get(webhook.id, "")][:POSITIONS_AT_ONCE]
        self._examined[webhook.id] = later[-1] if len(later) == POSITIONS_AT_ONCE else ""
        there = await self._store.models.existing(set(map(int, later)))
        for incarnation in later:
            if int(incarnation) not in there:
                del state.positions[incarnation]

    async def _forget_unchanged(self, state: DeliveryState, lately: Set[str]) -> None:
        """Forget the positions of models that were not used recently, and that have no waiting events in their logs."""
        latest = await self._store.models.recent(None, 1)
        unused = sorted(state.positions.keys() - lately)[:FORGOTTEN_AT_ONCE]
        names = await self._store.models.existing(set(map(int, unused)))
        positions = {
            ModelMeta(name, number, b""): state.positions[str(number)] for number, name in names.items() if name
        }
        for record, n_entries in (await self._store.logs.entries_after(positions, 1)).items():
            if not n_entries:
                del state.positions[str(record.incarnation)]
        if latest:  # its time and age give the time by the clock of the store
            state.since_unix_ms = latest[0].unix_ms + latest[0].age_ms - UNCHANGED_MS

    async def _loaded(self, record: ModelMeta) -> Replica | None:
        try:
            found = await self._registry.get(record.name)
        except (ModelNotFound, NotReady):
            return None
        return found if isinstance(found, Replica) and found.record == record and found.serving else None

    # -- documents --------------------------------------------------------------------------------

    def _poll_jobs(self, subscribers: Sequence[Subscriber]) -> None:
        for webhook, state in subscribers:
            for job in self._jobs.changed_since(state.jobs):
                if job.has_ended and webhook.wants("job", job.spec.model):
                    data = {
                        "job": job.id,
                        "model": job.spec.model,
                        "state": job.state,
                        "ended": job.ended,
                        "version": job.result.version if isinstance(job.result, Result) else None,
                        "error": None if job.error is None else job.error.code,
                    }
                    state.add(message_of("job", data, job.id, job.ended))
                state.jobs = job.revision

    async def _poll_versions(self, subscribers: Sequence[Subscriber]) -> None:
        mine = [pair for pair in subscribers if "promoted" in pair[0].events]
        for seen in {state.versions for _, state in mine}:
            catalogues = await self._versions.all(seen)
            names = {}
            if catalogues:
                numbers = {int(name) for name in catalogues if name.isdecimal()}
                names = {str(number): name for number, name in (await self._store.models.existing(numbers)).items()}
            behind = [pair for pair in mine if pair[1].versions == seen]
            for incarnation, catalogue in catalogues.items():
                if isinstance(catalogue, UNREADABLE):
                    continue
                changes = _changes(catalogue, seen) if incarnation in names else []
                for webhook, state in behind:
                    model = names.get(incarnation, "")
                    for change in changes if webhook.wants("promoted", model) else ():
                        data = {"model": model, **change._asdict()}
                        state.add(message_of("promoted", data, incarnation, change.position))
                    state.versions = catalogue.revision

    # -- predictions ------------------------------------------------------------------------------

    async def _review(self, records: Iterable[ModelMeta], subscribers: Sequence[Subscriber]) -> None:
        until = now_ms() - PREDICTIONS_AGE_MS
        for record in records:
            mine = [pair for pair in subscribers if pair[0].wants("review", record.name)]
            for since in {state.predictions_unix_ms for _, state in mine}:
                found = await self._needing_review(record, since, until)
                for _, state in mine if found else ():
                    if state.predictions_unix_ms == since:
                        listed = [{"prediction_id": id, "uncertainty": one} for one, id in found[:MAX_NAMED]]
                        data = {"model": record.name, "count": len(found), "predictions": listed}
                        state.add(message_of("review", data, record.incarnation, found[0][1], len(found)))
        for _, state in subscribers:
            state.predictions_unix_ms = max(state.predictions_unix_ms, until)

    async def _needing_review(self, record: ModelMeta, since: int, until: int) -> list[tuple[float, str]]:
        try:
            newest = await self._store.predictions.ids(record, 1)
            if not newest or ulid.timestamp_of(newest[0]) <= since:
                return []  # the model need not be loaded
            replica = await self._loaded(record)
            return [] if replica is None else await needing_review(replica, since, until, REVIEW_UNCERTAINTY)
        except (ModelGone, NotReady):
            return []


def _is_wanted(event: Event) -> bool:
    return event.kind in ("drift", "parity") or (event.kind == "label" and event.data["change"] == "new")


def _matches(webhook: Webhook, model: str) -> bool:
    return any(webhook.wants(kind, model) for kind in webhook.events)


def _interested(subscribers: Iterable[Subscriber], model: str) -> list[Subscriber]:
    return [pair for pair in subscribers if any(pair[0].wants(kind, model) for kind in OF_LOG)]


def _messages(record: ModelMeta, events: Iterable[Event]) -> Iterator[Message]:
    """Yield one message for all new labels of an entry, one for all alarms, and one for the last state of a promise of
    parity."""
    for (position, kind), group in groupby(events, key=lambda event: (event.position, event.kind)):
        found = [event.data for event in group]
        data: dict[str, Any] = {"model": record.name, "position": position, "count": len(found)}
        if kind == "label":
            data["labels"] = [each["label"] for each in found[:MAX_NAMED]]
            if alike := {each["label"]: each["alike"] for each in found[:MAX_NAMED] if "alike" in each}:
                data["alike"] = alike
        elif kind == "parity":
            data = {"model": record.name, "position": position, "state": found[-1]["state"]}
        else:
            data["alarms"] = [{"label": each["label"], "updates": each["updates"]} for each in found[:MAX_NAMED]]
        yield message_of(kind, data, record.incarnation, position)


def _changes(catalogue: VersionCatalogue, seen: int) -> list[Promoted]:
    changes = catalogue.changes_after(str(seen))
    return [each for each in (catalogue.changes if changes is None else changes) if isinstance(each, Promoted)]
