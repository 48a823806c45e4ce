"""Active version of a trained model, loading of the next version, and other versions in memory.

One task loads the version to serve in a thread, while the previous version predicts. Then the version and the position
change in one step, so the position never includes a version that does not predict yet.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable

import structlog

from manylabel_core.records import RecordLimits
from manylabel_core.state import DamagedState
from manylabel_service.errors import (
    ModelGone,
    NoVersionServed,
    ServiceError,
    StorageUnavailable,
    VersionDamaged,
    VersionNotFound,
)
from manylabel_service.hosting.events import Event, Events, Kind
from manylabel_service.hosting.position_waiters import PositionWaiters
from manylabel_service.storage import START, position_key
from manylabel_service.trained.predictor import Predictor
from manylabel_service.trained.version import Version
from manylabel_service.trained.version_store import Change, Promoted, VersionCatalogue, VersionStore

RETRY_SECONDS = 5.0
"""Seconds until a version that could not be loaded is tried again."""

log = structlog.get_logger()


class ActiveVersion:
    """Served version, in memory.

    Parameters
    ----------
    events : events of the model, notified of each change in this process.
    limits : limits of records.
    on_changed : callback when another version is in memory, or none could be loaded.

    Attributes
    ----------
    serving : version that predicts; None without one.
    position : revision of the model's list of versions at which this version began to be served.
    load_error : error of loading the version to serve; None without one.
    """

    def __init__(
        self, name: str, versions: VersionStore, events: Events, limits: RecordLimits, on_changed: Callable[[], None]
    ) -> None:
        self.serving: Predictor | None = None
        self.position = START
        self._name = name
        self._versions = versions
        self._events = events
        self._limits = limits
        self._on_changed = on_changed
        self._unreported: deque[Change] = deque()
        self._waiters = PositionWaiters(lambda: self.position)
        self._due = asyncio.Event()
        self._loading = asyncio.Lock()
        self._changes = 0
        self._has_gap = False
        self.load_error: ServiceError | None = None
        self._task: asyncio.Task[None] | None = None

    # -- interface --------------------------------------------------------------------------------

    def on(self) -> tuple[Predictor, str]:
        """Return the version that predicts, and its position. Raises NoVersionServed or VersionDamaged."""
        if self.serving is None:
            raise self.load_error or NoVersionServed(self._name)
        return self.serving, self.position

    def measures(self) -> None:
        """Return None: a trained model has no metrics while it predicts."""
        return

    @property
    def busy(self) -> bool:
        """True while a request waits for a position, or a version is being loaded."""
        return bool(self._waiters) or self._loading.locked()

    def observe(self, changes: Iterable[Change]) -> None:
        """Process a change of the catalogue."""
        if self._events:
            self._unreported.extend(changes)
        self._due.set()

    def lost(self) -> None:
        """Replace the known catalogue by an older one, after the store returned with older data."""
        self._unreported.clear()
        self._has_gap = True
        self._due.set()

    def reached(self, position: str) -> bool:
        """Return whether the position is at or after another."""
        return self._waiters.reached(position)

    async def arrival(self, position: str, seconds: float) -> None:
        """Wait at most `seconds` until the position is reached."""
        await self._waiters.wait(position, seconds)

    def start(self) -> None:
        """Start to follow the catalogue."""
        self._task = asyncio.create_task(self._run(), name=f"active version of {self._name}")

    def stop(self) -> None:
        """Stop following, and release waiting callers."""
        if self._task is not None:
            self._task.cancel()
        self._waiters.give_up()
        self._events.close()

    async def ended(self) -> None:
        """Wait for the end."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def load(self, version: Version) -> Predictor:
        """Return a version that is ready to predict; the current version is not loaded again. Raises VersionDamaged,
        StorageUnavailable or ModelGone."""
        async with self._loading:
            if self.serving is not None and self.serving.version == version:
                return self.serving
            return await self.read(version)

    async def read(self, version: Version) -> Predictor:
        """Return a stored version. Raises the errors of `load`."""
        data = await self._versions.artifact(version)
        try:
            return await asyncio.to_thread(Predictor, version, data, self._limits)
        except DamagedState as error:
            raise VersionDamaged(self._name, version.number, str(error)) from error

    def is_current(self, loaded: Predictor | None = None) -> bool:
        """If `loaded` is the served version, start to predict with it. Return whether the served version is in
        memory."""
        catalogue = self._versions.catalogue
        target = catalogue.target
        for serving in (self.serving, loaded):
            if target == (None if serving is None else serving.version.listed):
                self._put(serving, catalogue.position)
                return True
        return False

    async def catch_up(self) -> None:
        """Load the version to serve, if one can be loaded. Raises StorageUnavailable or ModelGone."""
        while not self.is_current():
            catalogue, changes = self._versions.catalogue, self._changes
            target, position = catalogue.target, catalogue.position
            assert target is not None  # otherwise the version is current
            try:
                serving = await self.load(await self._versions.version(target))
            except VersionNotFound:  # the version has been deleted, so another one must be served
                continue
            except VersionDamaged as error:
                self._report_load_error(error)
                return
            if self._changes == changes:  # otherwise a later version is loaded already
                self._put(serving, position)

    # -- the task ---------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(None if self.is_current() else RETRY_SECONDS):
                    await self._due.wait()
            except TimeoutError:
                pass
            self._due.clear()
            try:
                await self.catch_up()
            except (StorageUnavailable, ModelGone) as error:  # the model gets this error too, and handles it
                log.info("version_load_failed", model=self._name, error=str(error))
            except Exception:  # the previous version keeps serving
                log.exception("version_load_failed", model=self._name)

    def _put(self, serving: Predictor | None, position: str) -> None:
        self._changes += 1
        changed = serving is not self.serving or self.load_error is not None
        if serving is not self.serving:
            self.serving = serving
            log.info("version_activated", model=self._name, version=serving and serving.version.number)
        self.position = position
        self.load_error = None
        if changed:
            self._on_changed()
        self._waiters.notify()
        self._publish()

    def _publish(self) -> None:
        if self._has_gap:
            self._has_gap = False
            self._events.gap()
        here = position_key(self.position)
        published = False
        while self._unreported and position_key(self._unreported[0].position) <= here:
            change = self._unreported.popleft()
            kind: Kind = "promoted" if isinstance(change, Promoted) else "not_promoted"
            self._events.record(Event(kind, change.position, change._asdict()))
            published = True
        if published:
            self._events.notify()

    def _report_load_error(self, error: VersionDamaged) -> None:
        if self.load_error is None or str(error) != str(self.load_error):
            action = "promote another version, or delete the model"
            log.error("version_load_failed", model=self._name, error=str(error), action=action)
        self.load_error = error
        self._on_changed()


MAX_OTHER_VERSIONS = 2
"""Maximum number of versions of a model in memory in addition to the served one; the most recently used ones are
retained."""


class OtherVersions:
    """Cache of the versions requested by number."""

    def __init__(self, load: Callable[[Version], Awaitable[Predictor]]) -> None:
        self._load = load
        self._loaded: OrderedDict[str, Predictor] = OrderedDict()  # by id, the most recently used last
        self._loading = asyncio.Lock()

    @property
    def nbytes(self) -> int:
        """Bytes of memory of these versions."""
        return sum(predictor.nbytes for predictor in self._loaded.values())

    @property
    def busy(self) -> bool:
        """True while a version is being loaded."""
        return self._loading.locked()

    def find(self, id: str) -> Predictor | None:
        """Return a version if it is in memory."""
        if id in self._loaded:
            self._loaded.move_to_end(id)
        return self._loaded.get(id)

    async def load(self, version: Version) -> Predictor:
        """Return a version, loading it if necessary, one at a time.

        Raises VersionDamaged, StorageUnavailable or ModelGone.
        """
        async with self._loading:
            found = self.find(version.id)
            if found is None:
                found = self._loaded[version.id] = await self._load(version)
                while len(self._loaded) > MAX_OTHER_VERSIONS:
                    self._loaded.popitem(last=False)
            return found

    def keep(self, catalogue: VersionCatalogue) -> None:
        """Release deleted versions, and the version that is now served."""
        target = catalogue.target
        there = {listed.id for listed in catalogue.versions.values() if listed != target}
        for id in self._loaded.keys() - there:
            del self._loaded[id]
